"""Streams of readings with known risks."""

import numpy as np

from cascadia.exits.readings import Readings
from cascadia.exits.timing import Timing

TIMING = Timing(1, (1.0, 1.0, 1.0, 1.0), (0.01, 0.01, 0.01))


def stream(n: int, seed: int, harder: float = 0.0) -> Readings:
    """Three ramps, each better than the one before it; a doubt is about twice the chance that the label differs.

    `harder` adds to that chance whatever the doubt says.
    """
    rng = np.random.default_rng(seed)
    hard = rng.beta(0.4, 1.6, n)
    doubts = np.clip(hard[:, None] * np.array([1.0, 0.7, 0.4]) + 0.002, 0, 1)
    wrong = rng.random((n, 3)) < np.clip(0.5 * doubts**2 + harder, 0, 1)
    final = rng.integers(0, 4, n)
    return Readings(np.where(wrong, (final[:, None] + 1) % 4, final[:, None]), doubts, final)
