"""Active ramps for a path: those with which its settings save most, under the ramp budget.

Ramps are added one by one, each time the one that adds most, until none pays or fits. A ramp may pay for itself alone
and not beside its neighbours, so its worth is always that of the whole set (held against all sets in
`tests/unit/exits/test_choose.py`).
"""

from cascadia.exits.adjust import Budget
from cascadia.exits.path import Path, calibrated
from cascadia.exits.readings import Readings, exits, losses
from cascadia.exits.timing import Timing

AIM = 0.6
"""A certificate passes settings well inside the constraint: the share of it at which ramps are compared."""


def choose(readings: Readings, timing: Timing, risk: float, budget: Budget) -> tuple[int, ...]:
    """The active ramps, of all that `readings` have; they are read by ramps not trained on them."""
    active: tuple[int, ...] = ()
    best = 0.0
    while True:
        more = [tuple(sorted((*active, ramp))) for ramp in range(readings.ramps) if ramp not in active]
        worth = {
            ramps: expected_saving(readings, timing, risk, ramps) for ramps in more if budget.allows(ramps)
        }
        chosen = max(worth, key=worth.__getitem__, default=())
        if not chosen or worth[chosen] <= best:
            return active
        active, best = chosen, worth[chosen]


def expected_saving(readings: Readings, timing: Timing, risk: float, active: tuple[int, ...]) -> float:
    """The mean saving of the boldest setting whose risk on `readings` is at most `AIM` of the constraint."""
    if not active:
        return 0.0
    seen = readings.at(active)
    path = calibrated(seen, risk)
    left = [exits(seen.doubts, row) for row in path.thresholds]
    safe = [at for at, one in enumerate(left) if losses(seen, one).mean() <= AIM * risk]
    return timing.saving(active, left[safe[-1]]) if safe else -timing.overhead(active)


def path_of(readings: Readings, timing: Timing, risk: float, budget: Budget) -> tuple[tuple[int, ...], Path]:
    """Active ramps and their path of settings."""
    active = choose(readings, timing, risk, budget)
    return active, calibrated(readings.at(active), risk)
