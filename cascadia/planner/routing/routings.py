"""Routings as arrays: what each is, who answers under it, and fewer of them where there are too many.

A routing says which stages are deployed (any subset but the empty one) and, for each deployed stage but the
last, a threshold and whom it skips. A prompt comes to the first deployed stage; a stage is skipped iff what the
question alone promises of it is less than `skip_below`, else it answers, and accepts iff score >= threshold; the
last deployed stage answers and accepts always.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.dispatch.turns import takes_other
from cascadia.domain.plan import ASKS_NONE
from cascadia.domain.quality import Floats, QualityTable

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ACCEPTS_NONE = 101.0
"""Threshold of a stage that is not deployed."""
ACCEPTS_ALL = 0.0
"""Threshold of the last deployed stage where it is not the cascade's last."""
SKIPS_NONE = 0.0
"""`skip_below` of a stage that answers whoever comes to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Routings:
    """k routings of an S-stage cascade.

    `thresholds` (k, S-1): a stage that is not deployed has `ACCEPTS_NONE`, the last deployed one
    `ACCEPTS_ALL`, so that thresholds alone tell who answers. `deployed` (k, S). `reached` (k, S), 0-1: the
    fraction of prompts that run on each stage, 0 where it is not deployed. `mean` (k), 0-100: quality over
    the table. `lower` (k): its lower confidence bound; 0, which always holds, until `guarantee.with_bounds`
    sets it. `exact` is False where levels had to be thinned. `skip_below` (k, S-1): of a stage with a gate, 0-100, or
    `ASKS_NONE` of one that only the other routing of a mixture asks; None where the table foresees nothing. `mixed`:
    with what each is mixed; None where none is. `tries` (S): at each stage, verdicts on trials at its exits where no
    gate is, as a part of those at one; None where there are no exits.
    """

    thresholds: Floats
    deployed: Bools
    reached: Floats
    _: KW_ONLY
    mean: Floats
    lower: Floats
    exact: bool = True
    skip_below: Floats | None = None
    mixed: "Mixed | None" = None
    tries: Floats | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def take(self, chosen: NDArray[np.integer] | Bools) -> "Routings":
        """The routings at `chosen` (indices or a mask), in that order."""
        return Routings(
            self.thresholds[chosen],
            self.deployed[chosen],
            self.reached[chosen],
            mean=self.mean[chosen],
            lower=self.lower[chosen],
            exact=self.exact,
            skip_below=None if self.skip_below is None else self.skip_below[chosen],
            mixed=None if self.mixed is None else self.mixed.take(chosen),
            tries=self.tries,
        )

    def judged(self, chosen: NDArray[np.integer]) -> Bools:
        """(k, S): which stages' answers wait for verdicts under each of `chosen`: at a gate, or on trials at exits."""
        judged = self._gated(chosen)
        return judged if self.tries is None else judged | (self.deployed[chosen] & (self.tries > 0))

    def _gated(self, chosen: NDArray[np.integer]) -> Bools:
        """(k, S): which stages have a gate under each of `chosen`; never the last deployed one."""
        deployed = self.deployed[chosen]
        judged: Bools = deployed.copy()
        judged[:, :-1] &= self.thresholds[chosen] > ACCEPTS_ALL
        if self.skip_below is not None:
            judged[:, :-1] &= self.skip_below[chosen] < ASKS_NONE
        judged[np.arange(len(judged)), deployed.shape[1] - 1 - deployed[:, ::-1].argmax(axis=1)] = False
        if self.mixed is not None:
            judged |= self.mixed.other._gated(chosen) & (self.mixed.share[chosen] > 0)[:, None]
        return judged

    def verdicts(self, chosen: NDArray[np.integer]) -> Floats:
        """(k, S): the fraction of prompts whose answer at a stage waits for a verdict, under each of `chosen`; verdicts
        on trials alone count as the part that they are of those at a gate.
        """
        if self.mixed is None:
            alone = 0.0 if self.tries is None else self.tries * self.reached[chosen]
            return np.where(self._gated(chosen), self.reached[chosen], alone)
        parts, share = self.mixed, self.mixed.share[chosen][:, None]
        own = np.where(replace(self, mixed=None).judged(chosen), parts.reached[chosen], 0.0)
        return np.asarray((1.0 - share) * own + share * parts.other.verdicts(chosen))

    @property
    def plain(self) -> "Routings":
        """Routings that are not mixed; they come before mixtures."""
        return self if self.mixed is None else replace(self.take(self.mixed.share <= 0), mixed=None)

    def alike(self, k: int, other: int) -> bool:
        """Do both deploy the same, a judge or none included?"""
        same: bool = (self.deployed[k] == self.deployed[other]).all().item()
        return same and self.asks(k) == self.asks(other)

    def asks(self, k: int) -> bool:
        """Does any stage's answer wait for a verdict?"""
        waits: bool = self.judged(np.array([k])).any().item()
        return waits

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


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Mixtures of k routings: that `other` routing which a `share` (k) of the requests goes by, 0 where none
    does, and what part of the rest reaches each stage (k, S). Both are written for all stages that either
    deploys.
    """

    share: Floats
    other: Routings
    reached: Floats

    def take(self, chosen: NDArray[np.integer] | Bools) -> "Mixed":
        return Mixed(self.share[chosen], self.other.take(chosen), self.reached[chosen])


class Decisions(NamedTuple):
    """Decisions of a stage on each prompt or request that comes to it, (S, n): whether it is asked for an
    answer, and whether that one is accepted; never the second without the first. `foresees`: whether the
    question alone decides who enters. `judged`: whether a verdict decides who is accepted; where it is not, all
    are.
    """

    enters: Bools
    accepts: Bools
    foresees: Bools
    judged: Bools

    def take(self, rows: Ints) -> "Decisions":
        return Decisions(*(of_all[:, rows] for of_all in self))

    def mixed(self, other: "Decisions", share: float) -> "Decisions":
        """Decisions on requests in order of arrival, a `share` of which goes by `other`."""
        turns = takes_other(np.arange(self.enters.shape[1]), share)
        return Decisions(*(np.where(turns, b, a) for a, b in zip(self, other, strict=True)))

    @property
    def answered_by(self) -> Ints:
        """Index of the stage whose answer each gets: (n,)."""
        return np.asarray(self.accepts.argmax(axis=0), dtype=np.int64)

    @property
    def waiting(self) -> Bools:
        """(S, n): does nobody before the stage answer?"""
        waiting = np.ones_like(self.accepts)
        for stage, accepts in enumerate(self.accepts[:-1]):
            np.greater(waiting[stage], accepts, out=waiting[stage + 1])
        return waiting

    @property
    def reached(self) -> Bools:
        """(S, n): does it run on the stage?"""
        return self.waiting & self.enters


def decided(
    table: QualityTable,
    deployed: Bools,
    thresholds: Sequence[float] | Floats,
    skip_below: Sequence[float] | Floats | None,
) -> Decisions:
    """`thresholds` and `skip_below` (S-1) of one routing; prompts of `table` (m)."""
    enters = np.repeat(deployed[:, None], len(table), axis=1)
    last = np.flatnonzero(deployed)[-1]
    least = np.zeros(len(deployed)) if skip_below is None else np.append(skip_below, SKIPS_NONE)
    asked = least < ASKS_NONE
    enters &= asked[:, None]
    foresees = np.zeros_like(deployed)
    if table.foreseen is not None:
        enters &= table.foreseen >= least[:, None]
        foresees = deployed & asked & (least > SKIPS_NONE)
        foresees[last] = False
    if table.ahead is not None:
        foresees |= deployed & table.ahead
    levels = np.append(thresholds, ACCEPTS_ALL)
    accepted = table.score >= levels[:, None]
    enters[last] = accepted[last] = True
    judged = deployed & asked & (levels > ACCEPTS_ALL)
    judged[last] = False
    # Of a routing by itself it is the same for everybody.
    foresees, judged = (np.broadcast_to(told[:, None], enters.shape) for told in (foresees, judged))
    if table.verdicts is not None:
        # Who leaves by its budget waits for no verdict: every gate lets it out.
        judged = judged & ((table.verdicts.count > 0) | ~accepted)
    return Decisions(enters, accepted & enters, foresees, judged)


def joined(parts: Sequence[Routings]) -> Routings:
    """All of them, in order; exact where each is."""
    skips = [part.skip_below for part in parts if part.skip_below is not None]
    if any(part.mixed is not None for part in parts):
        raise ValueError("mixtures are added by `with_mixtures`")
    return Routings(
        np.concatenate([part.thresholds for part in parts]),
        np.concatenate([part.deployed for part in parts]),
        np.concatenate([part.reached for part in parts]),
        mean=np.concatenate([part.mean for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        exact=all(part.exact for part in parts),
        skip_below=np.concatenate(skips) if len(skips) == len(parts) else None,
    )


def with_mixtures(plain: Routings, mixtures: Routings) -> Routings:
    """`plain` routings, each of which no request leaves, and after them `mixtures`."""
    assert mixtures.mixed is not None
    own = (
        plain if plain.skip_below is not None else replace(plain, skip_below=np.zeros_like(plain.thresholds))
    )
    share = np.concatenate([np.zeros(len(plain)), mixtures.mixed.share])
    reached = np.concatenate([plain.reached, mixtures.mixed.reached])
    other = joined([own, mixtures.mixed.other])
    return replace(joined([own, replace(mixtures, mixed=None)]), mixed=Mixed(share, other, reached))


def decisions(table: QualityTable, routings: Routings, k: int) -> Decisions:
    """Decisions on the table's prompts under routing k; of a mixture, under its own thresholds."""
    skip_below = None if routings.skip_below is None else routings.skip_below[k]
    return decided(table, routings.deployed[k], routings.thresholds[k], skip_below)


def requests_decided(table: QualityTable, rows: Ints, routings: Routings, k: int) -> Decisions:
    """Decisions on requests in order of arrival, whose rows of the table are `rows`, under routing k."""
    own = decisions(table, routings, k).take(rows)
    if routings.mixed is None or routings.mixed.share[k] <= 0:
        return own
    other = decisions(table, routings.mixed.other, k).take(rows)
    return own.mixed(other, float(routings.mixed.share[k]))


def answered_by(table: QualityTable, routings: Routings, k: int) -> Ints:
    """Index of the stage whose answer each prompt gets under routing k: (m,)."""
    return decisions(table, routings, k).answered_by


def thin(routings: Routings, at_most: int) -> Routings:
    """Thins to at most `at_most` of the routings, well spread over the loads, by falling mean.

    The loads' space is cut into equal boxes, as fine as the number allows, and each box keeps its best mean.
    Depends on nothing else, so plans for different quality bars choose from the same routings. The best mean
    and every stand-alone stage always stay.
    """
    if at_most < 1:
        raise ValueError("at_most must be at least 1")
    if len(routings) <= at_most:
        return routings
    order = np.argsort(-routings.mean, kind="stable")
    reached, deployed = routings.reached[order], routings.deployed[order]
    alone = np.flatnonzero(deployed.sum(axis=1) == 1)
    always = np.unique(np.append(alone, 0))[:at_most]
    low, high = 0, 1024
    while high - low > 1:
        cells = (low + high) // 2
        if _filled(_boxes(reached, deployed, cells), always) <= at_most - len(always):
            low = cells
        else:
            high = cells
    best = np.unique(_boxes(reached, deployed, low), return_index=True)[1] if low else always
    return routings.take(order[np.union1d(always, best)])


def _boxes(reached: Floats, deployed: Bools, cells: int) -> Ints:
    """Number of each row's box. Stages deployed or not are never in one box."""
    box = np.ceil(reached * cells).astype(np.int64)
    key = np.zeros(len(box), dtype=np.int64)
    for column, on in zip(box.T, deployed.T, strict=True):
        key = (key * 2 + on) * (cells + 1) + column
    return key


def _filled(box: Ints, always: Ints) -> int:
    """Number of boxes but for those of which a row that is `always` kept is the first."""
    first = sum(not (box[:row] == box[row]).any() for row in always.tolist())
    return int(np.count_nonzero(np.diff(np.sort(box)))) + 1 - first


def without_unreached(routings: Routings) -> Routings:
    """The same routings without the stages that none of the table's prompts reaches.

    Every prompt gets the same answer, since what is before such a stage accepts all that come, or skips none; left
    deployed, the stage would take GPUs for nobody.
    """
    idle = routings.deployed & (routings.reached <= 0)
    if not idle.any():
        return routings
    deployed = routings.deployed & ~idle
    gates = deployed.shape[1] - 1
    last = gates - deployed[:, ::-1].argmax(axis=1)
    ends = np.arange(gates)[None, :] == last[:, None]
    thresholds = np.where(idle[:, :-1], ACCEPTS_NONE, np.where(ends, ACCEPTS_ALL, routings.thresholds))
    skips = routings.skip_below
    if skips is not None:
        skips = np.where(idle[:, :-1] | ends, SKIPS_NONE, skips)
    return replace(routings, thresholds=thresholds, deployed=deployed, skip_below=skips)


def outcomes(table: QualityTable, routings: Routings) -> NDArray[np.float32]:
    """Quality of the answer that each prompt gets under each routing: (k, m)."""
    quality = table.quality.astype(np.float32)
    value = np.repeat(quality[-1:], len(routings), axis=0)
    for stage in range(len(table.stages) - 2, -1, -1):
        accepted = table.score[stage] >= routings.thresholds[:, stage, None]
        if routings.skip_below is not None and table.foreseen is not None:
            accepted &= table.foreseen[stage] >= routings.skip_below[:, stage, None]
        np.copyto(value, quality[stage], where=accepted)
    return value


def mean_score(table: QualityTable, routings: Routings, k: int) -> float:
    """Mean score of the answers that the table's prompts get under one of the routings."""
    scores, one = replace(table, quality=table.score), routings.take(np.array([k]))
    own = float(outcomes(scores, one).mean(dtype=np.float64))
    if one.mixed is None:
        return own
    other = float(outcomes(scores, one.mixed.other).mean(dtype=np.float64))
    return own + float(one.mixed.share[0]) * (other - own)
