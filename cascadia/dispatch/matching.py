"""Several waiting requests are given to several replicas at once, so that the time of all of them costs least.

Kairos (section 5.1, Eq. 4 to 8). Requests i wait, W_i s each; replica j takes another now, or is expected to after
some time, which is part of L_ij beside the time to the end of the answer. Every request gets a place of its own, while
there are places, so that

    minimise  sum C_j L_ij P_ij,   L_ij + 10 T where L_ij + W_i would be past the deadline T

Only what falls to a place that is free is started; the others wait, and all is decided anew when something ends or
comes. So a long request may wait for a fast replica although a slow one is free. L, C and T are those of
`earliest_finish.py`, but that C is Definition 1 itself where no replica serves two at once; what a replica has read
before of a request's beginning is left out of L.

The paper lets requests starve: those that are late wherever they go cost least unserved. Here whoever was overtaken by
`OVERTAKEN` others is due, and so is whoever was left waiting beside a free place for as long as it would have taken
there. Free places go to those that are due first, in the order of their rank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from cascadia.dispatch.candidate import Asked, Given, Matched, PlacedCandidate, TimedCandidate, Waiting
from cascadia.dispatch.earliest_finish import SPARE, EarliestFinish, Trial
from cascadia.dispatch.latency_model import TOKENS_A_REQUEST, Coefficients, Seen

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WINDOW = 64
"""Of those who wait, the first so many are looked at."""
PLACES = 32
"""Looked at, at most."""
OVERTAKEN = 64
"""By so many others, and a request is due."""
SAFE = 0.98
"""Share of the deadline that is counted on (the paper's xi)."""
LATE = 10.0
"""What being late costs, in deadlines."""
DUE_S = -1e7
"""What a free place costs the last of the window, where it is due; more of that for each place further ahead."""
EQUALS_S = 1e-6
"""By so much less a free place costs for each place further ahead: of equals the first comes first."""
MOST_MATCH_S = 1e-3
"""A match that takes longer delays what it is to speed up."""
RESTS = 256
"""After such a match, so many requests go to the least outstanding."""
PREFIXES = 4096
"""Beginnings that are remembered."""


class _Place(NamedTuple):
    """A place at a replica that has `load` in hand by then; free in `wait_s`."""

    replica: int
    load: float
    wait_s: float


@dataclass(slots=True)
class _Newcomer:
    """A request that does not wait yet."""

    asked: Asked
    since_s: float
    overtaken: int = 0
    held_s: float | None = None


@dataclass(slots=True)
class _Begun:
    """Requests of one beginning: tokens of the shortest, and who has read it."""

    tokens: int
    names: set[str]


@dataclass(slots=True)
class Matching(EarliestFinish):
    """Waiting requests given to replicas together; what is learnt, and when it is relied on, is as of `EarliestFinish`.

    `matches` counts those made, `slow` those that took too long.
    """

    binds_late: ClassVar[bool] = True
    window: ClassVar[int] = WINDOW
    matches: int = 0
    slow: int = 0
    _rest: int = 0
    _ends: dict[str, float] = field(default_factory=dict)
    _begun: dict[int, _Begun] = field(default_factory=dict)

    @property
    def relied(self) -> bool:
        """Tells whether requests are matched now."""
        return self._relied and self.length.tells and not self._rest

    def looks(self, replicas: Sequence[PlacedCandidate]) -> bool:
        """Looks at who there is, and tells whether requests are matched to them: else by the least outstanding."""
        if replicas != self._candidates:
            self._arrange(replicas)
        return self.relied

    def took(self, match_s: float) -> None:
        """The latest match did."""
        if match_s > MOST_MATCH_S:
            self.slow += 1
            self._rest = RESTS

    def match(self, waiting: Sequence[Waiting], replicas: Sequence[PlacedCandidate], now_s: float) -> Matched:
        """Requests of `waiting`, in the order of their rank, that start now, and where."""
        window = waiting[:WINDOW]
        places = self._places(replicas, len(window), now_s)
        free = np.array([place.wait_s == 0 for place in places], np.bool_)
        if not window or not free.any():
            return Matched([])
        self.matches += 1
        kinds = {kind.name: (kind.model.coefficients, kind.worth) for kind in self._kinds}
        cost, told_s = self._costs(window, places, [kinds[replicas[p.replica].kind] for p in places],
                                   replicas, now_s)  # fmt: skip
        patience_s = told_s[:, free].min(axis=1)
        due = np.array([_is_due(one, patience_s[i], now_s) for i, one in enumerate(window)], np.bool_)
        ahead = np.arange(WINDOW, WINDOW - len(window), -1)
        cost += np.where(free, np.where(due, DUE_S, -EQUALS_S)[:, None] * ahead[:, None], 0.0)
        rows, columns = linear_sum_assignment(cost)
        started = free[columns]
        given = [
            Given(row, places[column].replica)
            for row, column in zip(rows[started].tolist(), columns[started].tolist(), strict=True)
        ]
        again_s = _note(window, given, patience_s, now_s, more=len(given) < free.sum())
        # Of more places than are looked at, there may be others for those who still wait.
        return Matched(given, now_s if len(given) == PLACES < len(waiting) else again_s)

    def place(self, asked: Asked, replicas: Sequence[PlacedCandidate], now_s: float) -> int | None:
        """Replica of a request that comes while nobody waits; None: it is to wait."""
        roomy = [i for i, replica in enumerate(replicas) if _room(replica) > 0]
        if not roomy:
            return None
        if not self.looks(replicas):
            return roomy[self.least.choose([replicas[i] for i in roomy], self.tokens(asked))]
        known = asked.prefix is not None and asked.prefix in self._begun
        if len(roomy) == len(replicas) and not known and all(r.max_concurrency > 1 for r in replicas):
            return EarliestFinish.choose(self, replicas, asked)
        given = self.match([_Newcomer(asked, now_s)], replicas, now_s).given
        return given[0].replica if given else None

    def given(self, candidate: TimedCandidate, asked: Asked, now_s: float = 0.0) -> Trial:
        self._rest = max(0, self._rest - 1)
        trial = EarliestFinish.given(self, candidate, asked, now_s)
        told_s = self.model(candidate.kind).seconds(trial.seen, trial.expected_tokens)
        self._ends[candidate.name] = now_s + told_s
        if asked.prefix is not None:
            begun = self._begun.setdefault(asked.prefix, _Begun(asked.tokens, set()))
            begun.tokens = min(begun.tokens, asked.tokens)
            begun.names.add(candidate.name)
            if len(self._begun) > PREFIXES:
                del self._begun[next(iter(self._begun))]
        return trial

    def _places(self, replicas: Sequence[PlacedCandidate], wanted: int, now_s: float) -> list[_Place]:
        """The next place of each replica, and further ones of those that have more; the best of each kind first."""
        order = _best_of_each_kind(replicas)
        found = []
        for i in order[:PLACES]:
            r = replicas[i]
            load, wait_s = r.load, 0.0
            if _room(r) <= 0:
                load, wait_s = load * (1 - 1 / max(1, r.running)), self._wait_s(r, now_s)
            found.append(_Place(i, load, wait_s))
        more = self.length.largest.output_tokens / TOKENS_A_REQUEST + 1
        further = 1
        while len(found) < min(PLACES, wanted):
            added = [
                _Place(i, replicas[i].load + further * more, 0.0)
                for i in order
                if _room(replicas[i]) > further
            ]
            if not added:
                break
            found += added[: PLACES - len(found)]
            further += 1
        return found

    def _wait_s(self, replica: PlacedCandidate, now_s: float) -> float:
        """Time until a replica that is full has a place: its answers end evenly, as far as is known."""
        if replica.running == 1 and replica.name in self._ends:
            # Never 0, which marks a place that is free.
            return max(self._ends[replica.name] - now_s, 1e-9)
        tokens, output_tokens = self.length.largest
        told_s = self.model(replica.kind).seconds(Seen(tokens, replica.load), output_tokens)
        return max(told_s / max(1, replica.running), 1e-9)

    def _costs(
        self, window: Sequence[Waiting], places: Sequence[_Place], kinds: Sequence[tuple[Coefficients, float]],
        replicas: Sequence[PlacedCandidate], now_s: float,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """The cost of each request at each place, and the time L in which it would be answered there; both [m, n]."""
        reads = [one.asked.tokens for one in window]
        lengths = [self.length.expected(one.asked.tokens, one.asked.most_output) for one in window]
        mean, high = np.array(lengths, np.float64).T
        left_s = np.array([one.asked.left_s - (now_s - one.since_s) for one in window])
        base_s, read_s, step_s, load_s = np.array([c for c, _ in kinds], np.float64).T
        load = np.array([place.load for place in places])
        wait_s = np.array([place.wait_s for place in places])
        read = np.array(reads, np.float64)[:, None] - self._read_before(window, places, replicas)
        begins_s = base_s + read_s * read
        token_s = step_s + load_s * load
        room = np.array([_room(replicas[place.replica]) for place in places])
        # The batch grows while an answer is written, up to what the replica takes.
        spare = np.minimum(SPARE, (token_s + load_s * np.maximum(room, 0)) / token_s)
        told_s = wait_s + begins_s + mean[:, None] * token_s
        late = wait_s + spare * (begins_s + high[:, None] * token_s) > SAFE * left_s[:, None]
        bounded = np.isfinite(left_s)[:, None]
        worth = np.array([w for _, w in kinds])
        if all(replicas[place.replica].max_concurrency == 1 for place in places):
            worth = worth**2
        wanted_s = np.array([0.0 if one.asked.left_s == inf else one.asked.left_s for one in window])
        cost = np.where(bounded, worth, 1.0) * told_s + np.where(late, LATE * wanted_s[:, None], 0.0)
        return cost, told_s

    def _read_before(
        self, window: Sequence[Waiting], places: Sequence[_Place], replicas: Sequence[PlacedCandidate]
    ) -> Floats | float:
        """Tokens of each request that each place has in its prefix cache, as far as is known [m, n]."""
        if not self._begun:
            return 0.0
        found = np.zeros((len(window), len(places)))
        for i, one in enumerate(window):
            prefix = one.asked.prefix
            begun = None if prefix is None else self._begun.get(prefix)
            if begun is not None:
                held = [replicas[place.replica].name in begun.names for place in places]
                found[i, held] = min(begun.tokens, one.asked.tokens)
        return found


def _room(replica: PlacedCandidate) -> int:
    return replica.max_concurrency - replica.running


def _best_of_each_kind(replicas: Sequence[PlacedCandidate]) -> list[int]:
    """Places of replicas: of each kind the best, then of each the next, and so on; who has room, and less load. All of
    them, or at least the first `PLACES`.
    """
    # No call and no tuple for each: of 400 replicas it would take half of what a match may.
    loads = [r.load for r in replicas]
    free = [i for i, r in enumerate(replicas) if r.running < r.max_concurrency]
    full = [i for i, r in enumerate(replicas) if r.running >= r.max_concurrency]
    kinds = [r.kind for r in replicas]
    ranks = dict.fromkeys(kinds, 0)
    rounds: list[list[int]] = []
    enough = PLACES // len(ranks) + 1
    lacking = len(ranks)
    for i in chain(sorted(free, key=loads.__getitem__), sorted(full, key=loads.__getitem__)):
        kind = kinds[i]
        rank = ranks[kind]
        ranks[kind] = rank + 1
        if rank == len(rounds):
            rounds.append([])
        rounds[rank].append(i)
        lacking -= rank + 1 == enough
        if not lacking:
            break
    return [i for each in rounds for i in each]


def _is_due(one: Waiting, patience_s: float, now_s: float) -> bool:
    # To the microsecond: who is looked at when its time has come would else wait for the rounding of a sum.
    held = one.held_s is not None and now_s - one.held_s >= patience_s - EQUALS_S
    return held or one.overtaken >= OVERTAKEN


def _note(
    window: Sequence[Waiting], given: Iterable[Given], patience_s: Floats, now_s: float, *, more: bool
) -> float:
    """Notes who was overtaken, and who was left beside a free place where there was `more` than was taken.

    Returns when the first of these has waited enough.
    """
    served = {at for at, _ in given}
    again_s, behind = inf, 0
    for at in range(len(window) - 1, -1, -1):
        one = window[at]
        if at in served:
            behind += 1
            continue
        one.overtaken += behind
        if more:
            one.held_s = now_s if one.held_s is None else one.held_s
            again_s = min(again_s, one.held_s + float(patience_s[at]))
    return again_s
