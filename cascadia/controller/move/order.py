"""Order in which kinds gain and lose replicas, so that GPUs suffice and no stage falls short on the way.

Given: for each kind k, c_k ready replicas, a_k to add, r_k to remove; GPUs g_p of each pool beyond those in use; for
each stage what is needed of it before and after the router changes its routing. A move adds one replica, removes
one, or changes the routing. It is allowed where

- an addition's GPUs are free,
- after a removal, the stage's capacity is at least `keep` times what is needed of it now, and, where the router sends
  to the stage, one replica is left,
- at the change of routing, the same holds of every stage of the new one.

Nothing is started for a while only, so each order has sum(a) + sum(r) + 1 moves at most, and a state is which of
them are done. Depth-first with dead states remembered: finds an order where one exists (within `MOST_STATES`), and as a
rule walks straight to it, since it adds first and removes where there is most to spare.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from cascadia.controller.move.state import Kind

EPS = 1e-9
MOST_STATES = 20_000


class Add(NamedTuple):
    kind: Kind


class Remove(NamedTuple):
    kind: Kind


class Switch(NamedTuple):
    """The change of routing."""


Move = Add | Remove | Switch
_ROOM_FIRST = {Remove: 0, Add: 1, Switch: 2}


@dataclass(frozen=True, slots=True)
class Needs:
    """`stages` are those the router sends to; `rps` is needed of each (absent: 0)."""

    stages: frozenset[str]
    rps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Task:
    """Task of a move, `before` and `after` the change of routing; `switched`: it is done, or there is none."""

    ready: Mapping[Kind, int]
    add: Mapping[Kind, int]
    remove: Mapping[Kind, int]
    free: Mapping[str, int]
    capacity_rps: Mapping[Kind, float]
    before: Needs
    after: Needs
    switched: bool


@dataclass(frozen=True, slots=True)
class _At:
    """`done` additions and removals by kind, in the task's order of kinds."""

    added: tuple[int, ...]
    removed: tuple[int, ...]
    switched: bool


def best_order(task: Task, keep: float) -> list[Move] | None:
    """The order that is short of the least for the shortest of two: one that adds as soon as there is room, and one
    that makes all the room first, so that what leaves is waited for once. None where no order keeps `keep`."""
    found = find_order(task, keep)
    if found is None or not (short := shortfall(task, found)):
        return found
    other = find_order(task, keep, room_first=True)
    return found if other is None or shortfall(task, other) >= short - EPS else other


def shortfall(task: Task, moves: list[Move]) -> float:
    """The share (0-1) of what is needed of the stages that they are short of, summed over neighbouring moves of one
    sort: these pass together, and each such time is one of loading or of waiting for requests to end."""
    search, total = _Search(task, 0.0), 0.0
    at = search.start
    for sort, run in groupby(moves, key=type):
        before = search.kept(at)
        for move in run:
            at = search.after(at, move)
        total += 0.0 if sort is Switch else 1.0 - min(1.0, before, search.kept(at))
    return total


def find_order(task: Task, keep: float, *, room_first: bool = False) -> list[Move] | None:
    """Moves that end with nothing left to do, or None where no order keeps `keep` (0-1) of what is needed.
    `room_first`: removes before it adds, and changes the routing last."""
    search = _Search(task, keep, room_first)
    at = search.start
    if search.done(at):
        return []
    dead = {at}
    path: list[tuple[Move, Iterator[tuple[Move, _At]]]] = []
    options = search.options(at)
    while True:
        option = next(options, None)
        if option is None:
            if not path or len(dead) > MOST_STATES:
                return None
            _, options = path.pop()
            continue
        move, then = option
        if then in dead:
            continue
        # Marked when it is entered: what can be reached from a state does not hang on the way there.
        dead.add(then)
        path.append((move, options))
        if search.done(then):
            return [move for move, _ in path]
        options = search.options(then)


class _Search:
    def __init__(self, task: Task, keep: float, room_first: bool = False) -> None:
        self.task = task
        self.keep = keep
        self.room_first = room_first
        self.kinds = sorted({*task.ready, *task.add, *task.remove})
        self.stages = sorted({k.stage for k in self.kinds} | task.before.stages | task.after.stages)
        nothing = (0,) * len(self.kinds)
        self.start = _At(nothing, nothing, task.switched)

    def done(self, at: _At) -> bool:
        return at.switched and not any(self._left(at, i) != (0, 0) for i in range(len(self.kinds)))

    def options(self, at: _At) -> Iterator[tuple[Move, _At]]:
        """Moves that are allowed now, the most promising first."""
        found = self._options(at)
        return (
            iter(sorted(found, key=lambda option: _ROOM_FIRST[type(option[0])])) if self.room_first else found
        )

    def after(self, at: _At, move: Move) -> _At:
        match move:
            case Add(kind):
                return _At(_one_more(at.added, self.kinds.index(kind)), at.removed, at.switched)
            case Remove(kind):
                return _At(at.added, _one_more(at.removed, self.kinds.index(kind)), at.switched)
            case Switch():
                return _At(at.added, at.removed, True)

    def kept(self, at: _At) -> float:
        """The part of what is needed that the stage has which is shortest of it."""
        needs, (_, capacity) = self.task.after if at.switched else self.task.before, self._strength(at)
        asked = [(stage, rps) for stage, rps in needs.rps.items() if rps > 0.0 and stage in needs.stages]
        return min((capacity.get(stage, 0.0) / rps for stage, rps in asked), default=1.0)

    def _options(self, at: _At) -> Iterator[tuple[Move, _At]]:
        needs = self.task.after if at.switched else self.task.before
        ready, capacity = self._strength(at)
        if not at.switched and self._suffices(self.task.after, ready, capacity):
            yield Switch(), _At(at.added, at.removed, True)
        free = self._free(at)
        wanting = {kind.pool for i, kind in enumerate(self.kinds) if self._left(at, i)[0]}

        def lack(i: int) -> tuple[float, int, int]:
            stage = self.kinds[i].stage
            has = capacity.get(stage, 0.0) / max(self._needed(stage), EPS)
            return has, -self.kinds[i].gpus, i

        def spare(i: int) -> tuple[bool, float, int, int]:
            kind = self.kinds[i]
            left = capacity[kind.stage] - self._capacity(kind) - self._needed(kind.stage)
            # First where something waits for the pool's GPUs; of these where there is most to spare.
            return kind.pool not in wanting, -left, -kind.gpus, i

        for i in sorted((i for i in range(len(self.kinds)) if self._left(at, i)[0]), key=lack):
            if self.kinds[i].gpus <= free.get(self.kinds[i].pool, 0):
                yield Add(self.kinds[i]), _At(_one_more(at.added, i), at.removed, at.switched)
        for i in sorted((i for i in range(len(self.kinds)) if self._left(at, i)[1]), key=spare):
            kind = self.kinds[i]
            rest = capacity[kind.stage] - self._capacity(kind)
            last = kind.stage in needs.stages and ready[kind.stage] <= 1
            if not last and rest >= self.keep * needs.rps.get(kind.stage, 0.0) - EPS:
                yield Remove(kind), _At(at.added, _one_more(at.removed, i), at.switched)

    def _needed(self, stage: str) -> float:
        return max(self.task.before.rps.get(stage, 0.0), self.task.after.rps.get(stage, 0.0))

    def _capacity(self, kind: Kind) -> float:
        return self.task.capacity_rps.get(kind, 1.0)

    def _left(self, at: _At, i: int) -> tuple[int, int]:
        kind = self.kinds[i]
        return self.task.add.get(kind, 0) - at.added[i], self.task.remove.get(kind, 0) - at.removed[i]

    def _strength(self, at: _At) -> tuple[dict[str, int], dict[str, float]]:
        """Ready replicas and their capacity, by stage."""
        ready = dict.fromkeys(self.stages, 0)
        capacity = dict.fromkeys(self.stages, 0.0)
        for i, kind in enumerate(self.kinds):
            count = self.task.ready.get(kind, 0) + at.added[i] - at.removed[i]
            ready[kind.stage] += count
            capacity[kind.stage] += count * self._capacity(kind)
        return ready, capacity

    def _free(self, at: _At) -> dict[str, int]:
        free = dict(self.task.free)
        for i, kind in enumerate(self.kinds):
            free[kind.pool] = free.get(kind.pool, 0) + kind.gpus * (at.removed[i] - at.added[i])
        return free

    def _suffices(self, needs: Needs, ready: Mapping[str, int], capacity: Mapping[str, float]) -> bool:
        return all(
            ready.get(stage, 0) >= 1
            and capacity.get(stage, 0.0) >= self.keep * needs.rps.get(stage, 0.0) - EPS
            for stage in needs.stages
        )


def _one_more(counts: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*counts[:i], counts[i] + 1, *counts[i + 1 :])
