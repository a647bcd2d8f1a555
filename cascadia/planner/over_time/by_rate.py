"""Gears by measured rate, as CascadeServe's producers choose them (its sections 4.3 and 5).

The rate is counted over whole periods, and what was counted in one holds for the next. The range of rates up to a
largest is cut into equal parts, each with a setting. A lighter load does not change the gear while many wait at the
first model: while the rate is below `patience` times the queue there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.workload import Floats

Ints = NDArray[np.int64]

PERIOD_S = 0.1
"""The paper's period, for thousands of requests a second; at a few a second it counts none or one."""
PATIENCE = 8.0
"""The paper's alpha."""
ROUNDS = 30
"""Gears depend on queues, which depend on gears: so often are both told anew at most."""


@dataclass(frozen=True, slots=True)
class RateRule:
    """`most_rps` is the largest rate, cut into `ranges` equal ranges; beyond it the last one's setting holds."""

    most_rps: float
    ranges: int
    period_s: float = PERIOD_S
    patience: float = PATIENCE

    @property
    def tops_rps(self) -> Floats:
        """The upper end of each range."""
        return np.linspace(self.most_rps / self.ranges, self.most_rps, self.ranges)

    def ranges_of(self, arrival_s: Floats, waiting: Callable[[float], int]) -> Ints:
        """The range in force at each arrival (n); `waiting(t)` is the queue at the first model at time t."""
        if not len(arrival_s):
            return np.zeros(0, np.int64)
        periods = (arrival_s / self.period_s).astype(np.int64)
        counts = np.bincount(periods)
        in_force = np.zeros(len(counts), np.int64)
        for period in range(1, len(counts)):
            rate = counts[period - 1] / self.period_s
            at = min(int(np.searchsorted(self.tops_rps, rate)), self.ranges - 1)
            before = in_force[period - 1]
            kept = at < before and rate < self.patience * waiting(period * self.period_s)
            in_force[period] = before if kept else at
        chosen: Ints = in_force[periods]
        return chosen


def settled(
    choose: Callable[[Callable[[float], int]], Ints], play: Callable[[Ints], tuple[Floats, Floats]]
) -> Ints:
    """The range in force at each arrival, once the queues that come of it make it so.

    `choose` tells ranges from a queue, `play` when each request (n) came to its first model and began there, in s.
    """

    def none(_: float) -> int:
        return 0

    ranges = choose(none)
    for _ in range(ROUNDS):
        came_s, began_s = (np.sort(times) for times in play(ranges))

        def waiting(t: float, came_s: Floats = came_s, began_s: Floats = began_s) -> int:
            return int(np.searchsorted(came_s, t) - np.searchsorted(began_s, t))

        told = choose(waiting)
        if (told == ranges).all():
            break
        ranges = told
    return ranges
