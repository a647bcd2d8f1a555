"""Steps from what runs to what is wanted, step by step, without failing a request on the way (Cascadia app. G,
made safe).

`reconcile` is pure. Whoever carries its steps out may die between any two of them: what is observed then is
reconciled again. It promises, and tests/unit/controller holds it to that with an exhaustive search beside it:

- a replica that both plans have is left alone, unless its machine has to be emptied for what finds no other, or it
  does not serve yet (or any more) and more of a stage's capacity is kept where its GPUs are another's first;
- a replica that neither serves nor is wanted is stopped at once, unless more is kept where it serves for a while;
- GPUs are never exceeded (those of the pool, and surge GPUs where given);
- the last ready replica of a stage that the router sends to is never taken;
- a stage's capacity stays at least at what today's traffic needs where some order of steps does so, else as large a
  part of it as some order keeps (in tenths);
- a replica that serves is drained before it is stopped, an idle one before a busy one;
- what serves on a machine that takes no pods any more is started elsewhere first, where there is room;
- the router changes its routing in one step, and only to stages that are ready;
- the steps end in what is wanted; where no safe order exists, `Blocked` says what would help.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice, product
from typing import NamedTuple

from cascadia.controller.move.bin_packing import NoRoom, with_room
from cascadia.controller.move.evacuate import evacuation
from cascadia.controller.move.order import Add, Move, Needs, Remove, Switch, Task, best_order, find_order
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, gpus_of, needed_rps
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain
from cascadia.domain.errors import CascadiaError

MOST_WAYS = 32
"""Combinations looked at of replicas that do not serve and might be started anew, or serve for a while."""
KEEPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Parts of today's need that an order may keep, tried in turn."""


class Blocked(CascadiaError):
    """No safe order of steps leads to what is wanted. Nothing has been done."""


class Rollout(NamedTuple):
    """`keeps` (0-1): the part of what today's traffic needs that every stage has all the while."""

    steps: list[Step]
    keeps: float


def reconcile(observed: Observed, desired: Desired, *, at_once: int = 1) -> list[Step]:
    """The steps from `observed` to `desired`; none where it is reached. Raises `Blocked`."""
    return rollout(observed, desired, at_once=at_once).steps


def rollout(observed: Observed, desired: Desired, *, at_once: int = 1) -> Rollout:
    """Rollout to what is desired: at most `at_once` replicas start together, or drain together, where neither
    GPUs nor capacity forbid it.
    """
    _check_gpus(observed, desired)
    for keep, way in product(KEEPS, _ways(observed, desired)):
        settled, first = _settle(observed, desired, way)
        moves = best_order(_task(settled, desired), keep)
        if moves is not None:
            names = Names({replica.name for replica in observed.replicas})
            steps = [*first, *_steps(settled, moves, desired, names, at_once)]
            if not steps:
                return Rollout(evacuation(observed, names), keep)
            try:
                return Rollout(with_room(observed, steps, names), keep)
            except NoRoom as error:
                raise Blocked(str(error)) from None
    raise Blocked(_why_blocked(_task(_settle(observed, desired, _Way())[0], desired)))


class _Way(NamedTuple):
    """Numbers of each kind, among the replicas that do not serve: of those that are wanted how many are stopped and
    started `anew`, of those that are not how many are `lent`, and serve until others do.
    """

    anew: Mapping[Kind, int] = {}
    lent: Mapping[Kind, int] = {}


def _ways(observed: Observed, desired: Desired) -> list[_Way]:
    """Ways to take the replicas that do not serve: none otherwise than the plan has them, then few."""
    idle = Counter(r.kind for r in observed.replicas if r.state in ("starting", "draining"))
    short = Counter(desired.counts)
    short.subtract(observed.ready_kinds())
    wanted = {kind: min(n, max(short[kind], 0)) for kind, n in sorted(idle.items())}
    most = [(kind, n) for kind, n in wanted.items() if n]
    spare = [(kind, n) for kind in wanted if (n := idle[kind] - wanted[kind])]
    choices = product(*(range(n + 1) for _, n in (*most, *spare)))
    found = sorted(islice(choices, MOST_WAYS), key=sum)
    return [
        _Way(
            {kind: n for (kind, _), n in zip(most, choice, strict=False)},
            {kind: n for (kind, _), n in zip(spare, choice[len(most) :], strict=True)},
        )
        for choice in found
    ]


def _check_gpus(observed: Observed, desired: Desired) -> None:
    for pool in sorted({kind.pool for kind in desired.counts}):
        there = observed.gpus.get(pool, 0)
        if desired.gpus(pool) > there:
            what = f"the plan takes {desired.gpus(pool)} {gpus_of(pool)}, and there are {there}"
            raise Blocked(f"{what}; plan for what is there")


def _settle(observed: Observed, desired: Desired, way: _Way) -> tuple[Observed, list[Step]]:
    """Takes the steps that cost nobody anything: useless stops; what drains or starts and is wanted, or lent, becomes
    ready, but for what is started anew.
    """
    short = Counter(desired.counts)
    short.subtract(observed.ready_kinds())
    # More are ready already than are wanted of some kinds: nothing that they could be short of.
    short = Counter({kind: max(n, 0) for kind, n in short.items()})
    short.subtract(way.anew)
    short.update(way.lent)
    stops: list[Step] = []
    others: list[Step] = []
    kept: list[Replica] = []
    # What drains has loaded its model already, so that it is taken back before one that starts is waited for.
    order = {"ready": 0, "draining": 1, "starting": 2, "failed": 3}
    for replica in sorted(observed.replicas, key=lambda r: (order[r.state], r.name)):
        if replica.state == "ready":
            kept.append(replica)
        elif replica.state != "failed" and short[replica.kind] > 0:
            short[replica.kind] -= 1
            kept.append(replace(replica, state="ready"))
            others.append(Undrain(replica.name) if replica.state == "draining" else AwaitReady(replica.name))
        else:
            stops.append(Stop(replica.name))
    undrains = [step for step in others if isinstance(step, Undrain)]
    awaits = [step for step in others if isinstance(step, AwaitReady)]
    # Capacity that costs nothing first; what may take minutes last.
    return replace(observed, replicas=tuple(kept)), [*undrains, *stops, *awaits]


def _task(settled: Observed, desired: Desired) -> Task:
    ready = Counter(r.kind for r in settled.replicas)
    kinds = {*ready, *desired.counts}
    pools = {*settled.gpus, *(kind.pool for kind in kinds)}
    routing = settled.routing
    stages = {kind.stage for kind in kinds}
    return Task(
        ready=ready,
        add={k: n for k in kinds if (n := desired.counts.get(k, 0) - ready[k]) > 0},
        remove={k: n for k in kinds if (n := ready[k] - desired.counts.get(k, 0)) > 0},
        free={p: settled.gpus.get(p, 0) + desired.surge.get(p, 0) - settled.used(p) for p in pools},
        capacity_rps={kind: desired.capacity(kind) for kind in kinds},
        before=Needs(
            frozenset(routing.stages if routing else ()),
            {stage: needed_rps(settled.need_rps, stage) for stage in stages},
        ),
        after=Needs(
            frozenset(desired.routing.stages),
            {stage: needed_rps(desired.need_rps, stage) for stage in stages},
        ),
        switched=routing == desired.routing,
    )


def _steps(
    settled: Observed, moves: list[Move], desired: Desired, names: "Names", at_once: int
) -> Iterator[Step]:
    """Neighbouring moves of one sort are taken together: the GPUs and capacity at their end are the least between. What
    is added goes largest first: small ones find room beside it."""
    leaving = _leaving(settled)
    for sort, run in groupby(moves, key=type):
        for some in _batches(sorted(run, key=_smallness), at_once):
            if sort is Add:
                started = [Start(next(names[move.kind.stage]), move.kind) for move in some]
                yield from started
                yield from (AwaitReady(start.name) for start in started)
            elif sort is Remove:
                ending = [leaving[move.kind].pop(0).name for move in some]
                yield from map(Drain, ending)
                yield from map(Stop, ending)
            elif sort is Switch:
                yield Route(desired.routing)


def _batches(moves: list[Move], size: int) -> Iterator[list[Add | Remove]]:
    for i in range(0, len(moves), max(1, size)):
        yield [move for move in moves[i : i + max(1, size)] if not isinstance(move, Switch)]


def _smallness(move: Move) -> int:
    return -move.kind.gpus if isinstance(move, Add) else 0


class Names(dict[str, Iterator[str]]):
    """Names by stage that no observed replica has: `small-0`, `small-1`, ..."""

    def __init__(self, taken: set[str]) -> None:
        super().__init__()
        self._taken = taken

    def __missing__(self, stage: str) -> Iterator[str]:
        self[stage] = self._fresh(stage)
        return self[stage]

    def _fresh(self, stage: str) -> Iterator[str]:
        number = 0
        while True:
            name = f"{stage}-{number}"
            if name not in self._taken:
                self._taken.add(name)
                yield name
            number += 1


def _leaving(settled: Observed) -> dict[Kind, list[Replica]]:
    """Replicas by kind in the order in which they would go: those that have to, then the idle before the busy."""
    found: dict[Kind, list[Replica]] = {}
    stays = {r.name: not settled.leaves_machine(r) for r in settled.replicas}
    for replica in sorted(settled.replicas, key=lambda r: (stays[r.name], r.running, r.company, r.name)):
        found.setdefault(replica.kind, []).append(replica)
    return found


def _why_blocked(task: Task) -> str:
    pools = sorted({kind.pool for kind in task.add})
    for extra in range(1, max((kind.gpus for kind in task.add), default=0) + 1):
        for pool in pools:
            free = {**task.free, pool: task.free.get(pool, 0) + extra}
            if find_order(replace(task, free=free), 0.0) is not None:
                stages = ", ".join(sorted({kind.stage for kind in task.remove}))
                return (
                    f"every order of steps takes the last ready replica of a stage ({stages}); "
                    f"give {extra} surge GPU{'s'[: extra > 1]} of {pool}, or stop and start by hand"
                )
    return (
        "no order of steps keeps a ready replica of every stage; give surge GPUs, or stop and start by hand"
    )
