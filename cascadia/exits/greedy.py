"""Thresholds of the active ramps by Apparate's hill climbing (section 3.2 and algorithm 1), and by full search.

Given a window of readings and how much accuracy may be lost, wanted are thresholds that save most time. From zero
on, in each round every ramp's threshold is raised alone by its own step; the raise with most time saved for each
accuracy lost is kept and its step doubled. Steps that overstep the loss are halved, down to the smallest.

Thresholds fitted to a window are judged by that same window here, as printed: what they lose on the next inputs is
more (docs/models/exits.md). `cascadia.exits.certify` is the answer to that.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from cascadia.exits.readings import Floats, Readings, exits, losses
from cascadia.exits.timing import Timing

FIRST_STEP, SMALLEST_STEP = 0.1, 0.01


class Tuned(NamedTuple):
    """`thresholds` (active ramps), and on the window they were fitted to: time `saving` and accuracy `loss`."""

    thresholds: Floats
    saving: float
    loss: float


def judged(window: Readings, timing: Timing, active: tuple[int, ...], thresholds: Floats) -> Tuned:
    """`window` is of the active ramps alone."""
    left = exits(window.doubts, thresholds)
    loss = float(losses(window, left).mean()) if len(window) else 0.0
    return Tuned(thresholds, timing.saving(active, left), loss)


def climb(window: Readings, timing: Timing, active: tuple[int, ...], loss_max: float) -> Tuned:
    """Algorithm 1, with the first step of section 3.2."""
    best = judged(window, timing, active, np.zeros(len(active)))
    steps = np.full(len(active), FIRST_STEP)
    while len(active):
        raised = [
            _raised(window, timing, active, best.thresholds, at, steps[at]) for at in range(len(active))
        ]
        over = np.array([one.loss > loss_max for one in raised])
        useful = [at for at, one in enumerate(raised) if not over[at] and best.thresholds[at] < 1.0]
        if useful:
            before = best
            chosen = max(useful, key=lambda at: _worth(before, raised[at]))
            best = raised[chosen]
            steps[chosen] *= 2
        elif (steps[over] <= SMALLEST_STEP).all():
            break
        steps[over] = np.maximum(steps[over] / 2, SMALLEST_STEP)
    return best


def _raised(
    window: Readings, timing: Timing, active: tuple[int, ...], thresholds: Floats, at: int, step: float
) -> Tuned:
    changed = thresholds.copy()
    changed[at] = min(1.0, changed[at] + step)
    return judged(window, timing, active, changed)


def _worth(before: Tuned, after: Tuned) -> tuple[float, float]:
    """Time saved for each accuracy lost; of those that lose none, the one that saves most."""
    gained, lost = after.saving - before.saving, after.loss - before.loss
    return (np.inf if gained > 0 else -np.inf, gained) if lost <= 0 else (gained / lost, gained)


def search(
    window: Readings, timing: Timing, active: tuple[int, ...], loss_max: float, levels: Floats
) -> Tuned:
    """The best of all thresholds in `levels`, which begins with 0: for comparison, since it grows as levels^ramps."""
    found = (judged(window, timing, active, np.array(row)) for row in product(levels, repeat=len(active)))
    return max((one for one in found if one.loss <= loss_max), key=lambda one: one.saving)
