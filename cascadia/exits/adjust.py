"""Choice of active ramps: Apparate's adjustment (section 3.3, algorithm 2), one round.

Where a ramp's utility is negative, thresholds are tuned once more; ramps that this does not mend go, and one candidate
takes their place: candidates stand in the middle of the intervals behind the last ramp of positive utility,
and an upper bound on a candidate's exit rate is the rate of the next ramp behind it that went, with those of all that
went before it. Where all are positive, an earlier ramp is tried: before the best one while the budget allows, or else
the worst one moves one place forward.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cascadia.exits.greedy import Tuned
from cascadia.exits.readings import Floats, Readings, exits
from cascadia.exits.timing import Timing, within_budget
from cascadia.exits.utility import exit_rates, utilities, utility


class Adjusted(NamedTuple):
    """`active` ramps and their `thresholds`; a new ramp begins with 0."""

    active: tuple[int, ...]
    thresholds: Floats


class Budget(NamedTuple):
    """Ramps may add `share` (0-1) to the worst case at each batch of `timings`."""

    timings: tuple[Timing, ...]
    share: float

    def allows(self, active: tuple[int, ...]) -> bool:
        return within_budget(self.timings, active, self.share)


def evenly(ramps: int, budget: Budget) -> tuple[int, ...]:
    """The ramps to begin with: as many as the budget allows, evenly spaced (section 3.1)."""
    for count in range(ramps, 0, -1):
        chosen = tuple((2 * i + 1) * ramps // (2 * count) for i in range(count))
        if budget.allows(chosen):
            return chosen
    return ()


def adjust(
    window: Readings,
    timing: Timing,
    now: Adjusted,
    budget: Budget,
    tune: Callable[[tuple[int, ...]], Tuned],
) -> Adjusted:
    """`window` is of all ramps that are active; `tune` fits thresholds to a set of active ramps."""
    left = exits(window.doubts, now.thresholds)
    worth = utilities(timing, now.active, left)
    if (worth < 0).any():
        return _mended(window, timing, now, budget, tune)
    return _probed(timing.ramps, now, worth, budget)


def _mended(
    window: Readings,
    timing: Timing,
    now: Adjusted,
    budget: Budget,
    tune: Callable[[tuple[int, ...]], Tuned],
) -> Adjusted:
    tuned = tune(now.active)
    before = timing.saving(now.active, exits(window.doubts, now.thresholds))
    left = exits(window.doubts, tuned.thresholds)
    again = utilities(timing, now.active, left)
    mended = Adjusted(now.active, tuned.thresholds)
    if tuned.saving >= before and (again >= 0).all():
        return mended
    rates = exit_rates(now.active, left)
    gone = {ramp: float(rate) for ramp, rate, w in zip(now.active, rates, again, strict=True) if w < 0}
    kept = tuple(ramp for ramp in now.active if ramp not in gone)
    positive = [ramp for ramp, w in zip(now.active, again, strict=True) if w > 0]
    chosen = _candidate(timing, max(positive, default=-1), gone, len(window))
    return _with(mended, kept if chosen is None or not budget.allows((*kept, chosen)) else (*kept, chosen))


def _candidate(timing: Timing, after: int, gone: dict[int, float], inputs: int) -> int | None:
    """The candidate of the highest positive upper bound on its utility: middles of the intervals first, then later."""
    borders = [after, *sorted(ramp for ramp in gone if ramp > after), timing.ramps]
    intervals = [list(range(low + 1, high)) for low, high in pairwise(borders)]
    starts = [len(places) // 2 for places in intervals]
    for shift in range(timing.ramps):
        tried = [
            places[start + shift]
            for places, start in zip(intervals, starts, strict=True)
            if start + shift < len(places)
        ]
        bounds = {ramp: _bound(timing, ramp, gone, inputs) for ramp in tried}
        best = max(bounds, key=bounds.__getitem__, default=None)
        if best is not None and bounds[best] > 0:
            return best
    return None


def _bound(timing: Timing, ramp: int, gone: dict[int, float], inputs: int) -> float:
    """The upper bound on a candidate's utility, in seconds over the window."""
    behind = [other for other in sorted(gone) if other > ramp][:1]
    rate = min(1.0, sum(rate for other, rate in gone.items() if other < ramp or other in behind))
    return utility(timing, ramp, rate * inputs, (1 - rate) * inputs)


def _probed(ramps: int, now: Adjusted, worth: Floats, budget: Budget) -> Adjusted:
    if not now.active:
        chosen = evenly(ramps, budget)
        return _with(now, chosen)
    best = now.active[int(worth.argmax())]
    if best > 0 and best - 1 not in now.active and budget.allows((*now.active, best - 1)):
        return _with(now, (*now.active, best - 1))
    worst = now.active[int(worth.argmin())]
    moved = tuple(ramp for ramp in now.active if ramp != worst)
    if worst > 0 and worst != best and worst - 1 not in moved and budget.allows((*moved, worst - 1)):
        return _with(now, (*moved, worst - 1))
    return now


def _with(now: Adjusted, active: tuple[int, ...]) -> Adjusted:
    known = dict(zip(now.active, now.thresholds.tolist(), strict=True))
    chosen = tuple(sorted(active))
    return Adjusted(chosen, np.array([known.get(ramp, 0.0) for ramp in chosen]))
