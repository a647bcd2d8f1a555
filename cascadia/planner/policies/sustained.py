"""The largest rate that a table carries, found by simulation."""

from collections.abc import Sequence

import numpy as np

from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.played import play
from cascadia.policy.problem import ModelProfile

REQUESTS = 20_000
SETTLES = 1_000
"""Requests at the start that are not counted."""
CLOSE = 1.01


def unit_arrivals(shape: float = 1.0, n: int = REQUESTS, seed: int = 0) -> Floats:
    """Arrivals at one a second in the mean, with gamma gaps of this shape (1: Poisson)."""
    return np.cumsum(np.random.default_rng(seed).gamma(shape, 1 / shape, n))


def sustained_rps(
    policies: Policies, models: Sequence[ModelProfile], late_max: float, unit_s: Floats, ceiling_rps: float
) -> float:
    """The largest rate, up to `ceiling_rps`, at which no more than `late_max` (0-1) is late; 0 where none is found."""

    def carries(rate_rps: float) -> bool:
        return play(policies, models, unit_s / rate_rps, skip=SETTLES).late <= late_max

    if carries(ceiling_rps):
        return ceiling_rps
    low, high = ceiling_rps / 1000, ceiling_rps
    if not carries(low):
        return 0.0
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        if carries(middle):
            low = middle
        else:
            high = middle
    return low
