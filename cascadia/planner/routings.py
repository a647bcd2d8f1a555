"""Routings as arrays: what each is, who answers under it, and fewer of them where there are too many.

A routing says which stages are deployed (any subset but the empty one) and, for each deployed stage but the
last, a threshold. A prompt enters at the first deployed stage; a stage accepts iff score >= threshold; the
last deployed stage always accepts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.quality import Floats, QualityTable

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ACCEPTS_NONE = 101.0
"""Threshold of a stage that is not deployed."""
ACCEPTS_ALL = 0.0
"""Threshold of the last deployed stage where it is not the cascade's last."""


@dataclass(frozen=True, slots=True, eq=False)
class Routings:
    """k routings of an S-stage cascade.

    `thresholds` (k, S-1): a stage that is not deployed has `ACCEPTS_NONE`, the last deployed one
    `ACCEPTS_ALL`, so that thresholds alone tell who answers. `deployed` (k, S). `reached` (k, S), 0-1: the
    fraction of prompts that run on each stage, 0 where it is not deployed. `mean` (k), 0-100: quality over
    the table. `lower` (k): its lower confidence bound; 0, which always holds, until `guarantee.with_bounds`
    sets it. `exact` is False where levels had to be thinned.
    """

    thresholds: Floats
    deployed: Bools
    reached: Floats
    mean: Floats
    lower: Floats
    exact: bool = True

    def __len__(self) -> int:
        return len(self.mean)

    def take(self, chosen: NDArray[np.integer] | Bools) -> "Routings":
        """The routings at `chosen` (indices or a mask), in that order."""
        return Routings(
            self.thresholds[chosen],
            self.deployed[chosen],
            self.reached[chosen],
            self.mean[chosen],
            self.lower[chosen],
            self.exact,
        )

    def apart(self, k: int, chosen: Sequence[int], by: float) -> bool:
        """Does `k` differ from each of `chosen` by more than the part `by` of the requests at some stage?"""
        return all(np.abs(self.reached[k] - self.reached[c]).max() > by for c in chosen)

    def first_apart(self, order: Iterable[int], most: int, by: float) -> list[int]:
        """The first of `order` that are apart from all chosen before them, at most `most`."""
        chosen: list[int] = []
        for k in order:
            if len(chosen) == most:
                break
            if self.apart(k, chosen, by):
                chosen.append(k)
        return chosen


def accepts(table: QualityTable, routings: Routings, k: int) -> Bools:
    """Which prompts stage i answers to under routing k if it gets them: (S, m)."""
    thresholds = np.append(routings.thresholds[k], ACCEPTS_ALL)
    deployed = routings.deployed[k]
    last = np.flatnonzero(deployed)[-1]
    accepted = (table.score >= thresholds[:, None]) & deployed[:, None]
    accepted[last] = True
    return np.asarray(accepted, dtype=np.bool_)


def answered_by(table: QualityTable, routings: Routings, k: int) -> Ints:
    """Index of the stage whose answer each prompt gets under routing k: (m,)."""
    return np.asarray(accepts(table, routings, k).argmax(axis=0), dtype=np.int64)


def thin(routings: Routings, at_most: int) -> Routings:
    """At most `at_most` of the routings, well spread over the loads, by falling mean.

    The loads' space is cut into equal boxes, as fine as the number allows, and each box keeps its best mean.
    Depends on nothing else, so plans for different quality bars choose from the same routings. The best mean
    and every stand-alone stage always stay.
    """
    if at_most < 1:
        raise ValueError("at_most must be at least 1")
    if len(routings) <= at_most:
        return routings
    order = np.argsort(-routings.mean, kind="stable")
    reached = routings.reached[order]
    alone = np.flatnonzero(routings.deployed[order].sum(axis=1) == 1)
    always = np.unique(np.append(alone, 0))[:at_most]
    room = at_most - len(always)
    low, high = 0, 1024
    kept = always
    while high - low > 1:
        cells = (low + high) // 2
        best = _best_of_boxes(reached, routings.deployed[order], cells)
        best = best[~np.isin(best, always)]
        if len(best) <= room:
            low, kept = cells, np.union1d(always, best)
        else:
            high = cells
    return routings.take(order[kept])


def _best_of_boxes(reached: Floats, deployed: Bools, cells: int) -> Ints:
    """First row of each box; rows come best first. Stages deployed or not are never in one box."""
    box = np.ceil(reached * cells).astype(np.int64)
    key = np.zeros(len(box), dtype=np.int64)
    for column, on in zip(box.T, deployed.T, strict=True):
        key = (key * 2 + on) * (cells + 1) + column
    return np.sort(np.unique(key, return_index=True)[1])


def outcomes(table: QualityTable, routings: Routings) -> NDArray[np.float32]:
    """Quality of the answer that each prompt gets under each routing: (k, m)."""
    quality = table.quality.astype(np.float32)
    value = np.repeat(quality[-1:], len(routings), axis=0)
    for stage in range(len(table.stages) - 2, -1, -1):
        accepted = table.score[stage] >= routings.thresholds[:, stage, None]
        np.copyto(value, quality[stage], where=accepted)
    return value
