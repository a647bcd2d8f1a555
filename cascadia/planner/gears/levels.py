"""Levels of load: how the rate of a trace is spread over windows of about one latency.

A queue forgets what came longer than about one latency ago. So a trace is cut into windows of that length, and windows
of like rate are one level, more finely where load is high. One more level, which the trace never has, is at twice its
busiest window's rate.
"""

from dataclasses import dataclass

import numpy as np

from cascadia.domain.workload import Floats, Ints

EDGES = (0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98, 1.0)
"""Shares of the requests, calmest windows first, between which a level lies."""

FEWEST_WINDOWS, FEWEST_REQUESTS = 20, 400
"""A trace of less says nothing of how its rate is spread."""

BEYOND = 2.0
"""Times the busiest window's rate: the level that no request of the trace meets."""

ALIKE = 1.03
"""Levels whose rates differ by no more than this factor are one."""


@dataclass(frozen=True, slots=True)
class Level:
    """A rate, and which shares (0-1) of the time and of the requests have about it."""

    rate_rps: float
    time_share: float
    request_share: float


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """`levels` by rising rate, the one beyond the trace last; `met` (n): which of them each request comes at."""

    levels: tuple[Level, ...]
    met: Ints

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def weight(self) -> Floats:
        """The share of the requests that comes at each level."""
        return np.array([level.request_share for level in self.levels])


def spread(arrival_s: Floats, window_s: float) -> Spread | None:
    """Spread of the load; None where the trace is too short to tell. Arrivals (n) do not decrease and begin at
    0.
    """
    windows = int(arrival_s[-1] / window_s) if len(arrival_s) and window_s > 0 else 0
    if windows < FEWEST_WINDOWS or len(arrival_s) < FEWEST_REQUESTS:
        return None
    width_s = float(arrival_s[-1]) / windows
    window = np.minimum((arrival_s / width_s).astype(np.int64), windows - 1)
    counts = np.bincount(window, minlength=windows)
    of = _levels_of(counts)
    met = np.bincount(of)
    requests = np.bincount(of, weights=counts)
    levels = [
        Level(float(here / (count * width_s)), count / windows, float(here) / len(arrival_s))
        for count, here in zip(met.tolist(), requests.tolist(), strict=True)
    ]
    beyond = Level(BEYOND * float(counts.max()) / width_s, 0.0, 0.0)
    return Spread((*levels, beyond), of[window])


def _levels_of(counts: Ints) -> Ints:
    """Levels of windows with `counts` requests, numbered from 0 by rising rate."""
    order = np.argsort(counts, kind="stable")
    ordered = counts[order]
    middle = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
    of = np.searchsorted(EDGES[1:-1], middle, side="right")
    for level in range(1, len(EDGES) - 1):
        here, before = ordered[of == level], ordered[(of < level) & (of == of[of < level].max(initial=-1))]
        if len(here) and len(before) and here.mean() <= ALIKE * before.mean():
            of[of == level] = of[of < level].max()
    found = np.empty_like(of)
    found[order] = np.unique(of, return_inverse=True)[1]
    return np.asarray(found, np.int64)
