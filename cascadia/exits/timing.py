"""Time of a pass through a model with ramps, measured once (Apparate section 3.3): its segments and its ramps.

With S[k] the segment before ramp k, S[R] what follows the last ramp, and a[k] the time of ramp k, an input that
leaves at ramp k has its answer after S[0] + ... + S[k] plus the ramps in use up to k. One that leaves at none pays
for all ramps.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from cascadia.exits.readings import Floats, Ints


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one pass over a batch of `batch` inputs: `segments_s` (ramps + 1) and `ramps_s` (ramps)."""

    batch: int
    segments_s: tuple[float, ...]
    ramps_s: tuple[float, ...]

    def __post_init__(self) -> None:
        told = (*self.segments_s, *self.ramps_s)
        if len(self.segments_s) != len(self.ramps_s) + 1 or not all(0 <= each < inf for each in told):
            raise ValueError(f"no timing: {self.segments_s}, {self.ramps_s}")

    @property
    def ramps(self) -> int:
        return len(self.ramps_s)

    @property
    def total_s(self) -> float:
        """Time of the model without ramps."""
        return sum(self.segments_s)

    def overhead(self, active: tuple[int, ...]) -> float:
        """Time that `active` ramps add to an input that leaves at none, as a share of the model's time."""
        return sum(self.ramps_s[k] for k in active) / self.total_s

    def answered_s(self, active: tuple[int, ...]) -> Floats:
        """(active + 1): seconds until the answer of an input that leaves at each active ramp, and at none."""
        upto = np.cumsum(self.segments_s)
        paid = np.cumsum([self.ramps_s[k] for k in active])
        last = self.total_s + (float(paid[-1]) if len(active) else 0.0)
        return np.array([*(upto[list(active)] + paid if active else ()), last])

    def saving(self, active: tuple[int, ...], exit_at: Ints) -> float:
        """The mean time that exits save, ramps paid, as a share of the model's time; `exit_at` counts active ramps."""
        if not len(exit_at):
            return 0.0
        return float(1.0 - self.answered_s(active)[exit_at].mean() / self.total_s)


def within_budget(timings: tuple[Timing, ...], active: tuple[int, ...], budget: float) -> bool:
    """Tells whether `active` ramps keep the ramp budget, a share of the worst case, at each batch (Apparate section
    3).
    """
    return all(timing.overhead(active) <= budget for timing in timings)
