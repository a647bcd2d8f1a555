"""Utility of a ramp: the time that those who left there were spared, less the time it cost those who went on.

Apparate section 3.3: "savings - overheads", in seconds summed over the inputs of a window.
"""

import numpy as np

from cascadia.exits.readings import Floats, Ints
from cascadia.exits.timing import Timing


def utilities(timing: Timing, active: tuple[int, ...], exit_at: Ints) -> Floats:
    """(active): seconds. `exit_at` (inputs) counts active ramps."""
    left = exit_rates(active, exit_at) * len(exit_at)
    return np.array(
        [utility(timing, ramp, left[at], int((exit_at > at).sum())) for at, ramp in enumerate(active)]
    )


def utility(timing: Timing, ramp: int, left: float, went_on: float) -> float:
    """Seconds, of a ramp at which `left` inputs leave and `went_on` do not."""
    return left * sum(timing.segments_s[ramp + 1 :]) - went_on * timing.ramps_s[ramp]


def exit_rates(active: tuple[int, ...], exit_at: Ints) -> Floats:
    """(active): the share of all inputs that leaves at each active ramp."""
    count = np.bincount(exit_at, minlength=len(active) + 1)[: len(active)]
    return count / max(1, len(exit_at))
