"""Active ramps for a path: those with which its settings save most, under the ramp budget.

Ramps are added one by one, each time the one that adds most in the mean, until none pays or fits. A ramp may pay for
itself alone and not beside its neighbours, so its worth is always that of the whole set (held against all sets in
`tests/unit/exits/test_choose.py`). Sets that save nearly as much in the mean may differ widely for the input in the
middle: where less than half leave, the median answer is later than without exits.
"""

from typing import NamedTuple

import numpy as np

from cascadia.exits.adjust import Budget
from cascadia.exits.path import Path, calibrated
from cascadia.exits.readings import Readings, exits, losses
from cascadia.exits.timing import Timing

NEAR = 0.9
"""Sets that save this part of the most are as good in the mean."""
MIDDLE = 0.55
"""The quantile of answer times that stands for the median: a little beyond it, since where half of the inputs leave a
little less may.
"""
AIM = 0.6
"""A certificate passes settings well inside the constraint: the share of it at which ramps are compared."""


class Worth(NamedTuple):
    """Savings of a set of ramps, in the mean and for the input in the middle, as shares of the model's time."""

    mean: float
    typical: float


def choose(readings: Readings, timing: Timing, risk: float, budget: Budget) -> tuple[int, ...]:
    """The active ramps, of all that `readings` have; they are read by ramps not trained on them.

    Of all sets looked at that save nearly as much in the mean, the one that does most for the input in the middle.
    """
    active: tuple[int, ...] = ()
    seen = {active: Worth(0.0, 0.0)}
    while True:
        more = [tuple(sorted((*active, ramp))) for ramp in range(readings.ramps) if ramp not in active]
        worth = {ramps: expected(readings, timing, risk, ramps) for ramps in more if budget.allows(ramps)}
        chosen = max(worth, key=lambda ramps: worth[ramps].mean, default=())
        if not chosen or worth[chosen].mean <= seen[active].mean:
            seen |= worth
            break
        seen |= worth
        active = chosen
    near = [ramps for ramps, one in seen.items() if one.mean >= NEAR * seen[active].mean]
    return max(near, key=lambda ramps: (seen[ramps].typical, seen[ramps].mean))


def expected(readings: Readings, timing: Timing, risk: float, active: tuple[int, ...]) -> Worth:
    """Savings of the boldest setting whose risk on `readings` is at most `AIM` of the constraint."""
    if not active:
        return Worth(0.0, 0.0)
    seen = readings.at(active)
    path = calibrated(seen, risk)
    left = [exits(seen.doubts, row) for row in path.thresholds]
    safe = [one for one in left if losses(seen, one).mean() <= AIM * risk]
    if not safe:
        return Worth(-timing.overhead(active), -timing.overhead(active))
    times = timing.answered_s(active)[safe[-1]] / timing.total_s
    return Worth(float(1 - times.mean()), float(1 - np.quantile(times, MIDDLE)))


def path_of(readings: Readings, timing: Timing, risk: float, budget: Budget) -> tuple[tuple[int, ...], Path]:
    """Active ramps and their path of settings."""
    active = choose(readings, timing, risk, budget)
    return active, calibrated(readings.at(active), risk)
