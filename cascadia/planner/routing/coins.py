"""Coins: mixtures of two models alone, which need no gate and ask nobody twice.

A cascade whose gate costs more time than it saves is no better than a coin that sends as many requests to the larger
model: so what a coin does is planned, too. Bounds of all routings hold at once, so a mixture's lies on the line between
its two models'.
"""

from itertools import combinations

import numpy as np

from cascadia.planner.routing.mixtures import STEPS, mixtures_of
from cascadia.planner.routing.routings import Routings


def coins(routings: Routings, least: float) -> Routings | None:
    """Mixtures of each two models alone among `routings`, of which one alone has a quality of `least` and the other has
    not: with the least share of the better one that keeps it. None where there are none.
    """
    ends = routings.take(np.flatnonzero(np.count_nonzero(routings.deployed, axis=1) == 1))
    share = np.arange(1, STEPS) / STEPS
    found: list[tuple[int, int, float, float]] = []
    for pair in combinations(range(len(ends)), 2):
        worse, better = sorted(pair, key=lambda k: float(ends.lower[k]))
        lower = (1 - share) * ends.lower[worse] + share * ends.lower[better]
        at = int(np.searchsorted(lower, least))
        if ends.lower[worse] < least and at < len(share):
            found.append((worse, better, share[at], lower[at]))
    if not found:
        return None
    near, far, part, bound = (np.array(column) for column in zip(*found, strict=True))
    return mixtures_of(ends, near, far, part, bound)
