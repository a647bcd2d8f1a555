"""Windows in which requests are counted, and what they tell of the rate."""

import numpy as np

from cascadia.domain.workload import Floats

SHORT_S = (30.0, 60.0)
"""Of windows that short, what is sure of their rate is taken, upwards and downwards."""
RATE_S, STEADY_S = 120.0, 300.0
"""Windows that long are taken as they are."""
SURE = 2.0
"""Standard errors."""
FEWEST = 6
"""Windows that tell how unsteadily requests come; with fewer, `UNSTEADY` times Poisson's variance is taken."""
UNSTEADY = 2.0
HALF_NORMAL = 0.4549
"""The median of a squared standard normal."""


def counts_of(at_s: Floats, came: Floats, span_s: float) -> Floats:
    """Counts what came in the whole windows that end with the last look, oldest first."""
    # A float's last digit must not cost the window that is just full.
    windows = int((at_s[-1] - at_s[0]) / span_s + 1e-9)
    edges = at_s[-1] - span_s * np.arange(windows, -1, -1)
    return np.diff(np.interp(edges, at_s, came))


def least_rps(counts: Floats, span_s: float) -> float:
    """Bounds the rate in the last of `counts` from below."""
    return max(0.0, float(counts[-1]) - _chance(counts)) / span_s


def most_rps(counts: Floats, span_s: float) -> float:
    """Bounds it from above."""
    return (float(counts[-1]) + _chance(counts)) / span_s


def _chance(counts: Floats) -> float:
    return SURE * float(np.sqrt(unsteady(counts) * float(counts[-1])))


def unsteady(counts: Floats) -> float:
    """The variance of `counts` but the last over Poisson's, at least 1. Differences of neighbours tell, whatever level
    they are on."""
    before = counts[:-1]
    if len(before) < FEWEST or not before.mean():
        return UNSTEADY
    # 2: a difference has the variance of both. The median, as one jump would rule a mean of squares.
    return max(1.0, float(np.median(np.diff(before) ** 2)) / (2.0 * HALF_NORMAL * float(before.mean())))
