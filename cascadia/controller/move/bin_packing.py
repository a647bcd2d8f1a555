"""Bin packing of starts onto machines, and what moves aside for one that finds no room. Pure.

GPUs that are free in a pool are of use to a pod only where they are of one machine. A start is meant for the machine
that it leaves fullest (best fit), so that large gaps stay whole. Where none has room, replicas that stay are moved off
one machine: each is started elsewhere before it is drained, at the machine where that takes the fewest GPUs.

Why that ends, though what is to be done is found anew after each replica that moved aside: that one has to be where it
was meant for, so the others still have their places, and the GPUs that the cheapest machine takes to be emptied become
fewer each time. What a scheduler puts elsewhere than was wished is only what the plan adds, and that is done once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cascadia.controller.move.state import Kind, Observed
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop, Undrain
from cascadia.domain.errors import CascadiaError


class NoRoom(CascadiaError):
    """A start finds no machine, and none can be emptied for it."""


class _Aside(NamedTuple):
    """Replicas that leave `machine`, each with where it goes."""

    machine: str
    leaving: tuple[tuple[str, str], ...]
    gpus: int


def with_room(observed: Observed, steps: Iterable[Step], names: Mapping[str, Iterator[str]]) -> list[Step]:
    """`steps`, each start with its machine, and before it what moves aside. `names`: by stage, those not taken.

    Nothing changes where machines are not known. Raises `NoRoom`.
    """
    if not observed.machines:
        return list(steps)
    room = _Room(observed, names)
    return [done for step in steps for done in room.take(step)]


class _Room:
    """Machines and who is on them, while steps are taken."""

    def __init__(self, observed: Observed, names: Mapping[str, Iterator[str]]) -> None:
        self._pools = {name: machine.pools for name, machine in observed.machines.items()}
        self._machines: dict[str, list[str]] = {}
        self._names = names
        self._instead: dict[str, str] = {}
        """By the name of a replica that moved aside, the one that took its place."""
        self.free = {name: machine.gpus for name, machine in observed.machines.items()}
        self.kinds: dict[str, Kind] = {}
        self.on: dict[str, list[str]] = {}
        self.ready: set[str] = set()
        for replica in observed.replicas:
            self._put(replica.name, replica.kind, replica.on)
            if replica.state == "ready":
                self.ready.add(replica.name)
        for replica in observed.replicas:
            # Started already, but not on any machine yet.
            for _ in range(replica.kind.pods - len(replica.on)):
                if (
                    machine := best_machine(self.free, self._of(replica.kind.pool), gpus_of_pod(replica.kind))
                ) is not None:
                    self._put(replica.name, replica.kind, (machine,))

    def take(self, step: Step) -> Iterator[Step]:
        match step:
            case Start(name, kind):
                yield from self._start(name, kind)
            case AwaitReady(name) | Undrain(name):
                self.ready.add(name)
                yield step
            case Drain(name):
                name = self._instead.get(name, name)
                self.ready.discard(name)
                yield Drain(name)
            case Stop(name):
                name = self._instead.get(name, name)
                self._leave(name)
                yield Stop(name)
            case _:
                yield step

    def _start(self, name: str, kind: Kind) -> Iterator[Step]:
        """A replica of several pods has no machine that it is meant for: its pods may be of several."""
        for _ in range(kind.pods):
            machine = best_machine(self.free, self._of(kind.pool), gpus_of_pod(kind))
            if machine is None:
                aside = self._least_aside(name, kind)
                yield from self._move(aside)
                machine = aside.machine
            self._put(name, kind, (machine,))
        yield Start(name, kind, self.on[name][0] if kind.pods == 1 else "")

    def _least_aside(self, name: str, kind: Kind) -> _Aside:
        here: dict[str, list[str]] = {}
        for each in self.ready:
            if len(self.on[each]) == 1 and self.kinds[each].pods == 1:
                here.setdefault(self.on[each][0], []).append(each)
        found = [
            aside
            for machine in self._of(kind.pool)
            # Few large ones or many small ones: neither order takes the fewest GPUs on all machines.
            for order in (1, -1)
            if (aside := self._aside(machine, here.get(machine, ()), gpus_of_pod(kind), order)) is not None
        ]
        if not found:
            free = ", ".join(f"{self.free[machine]} on {machine}" for machine in self._of(kind.pool))
            raise NoRoom(
                f"{name} takes {gpus_of_pod(kind)} GPUs of one machine of {kind.pool}, there are {free or 'none'}, and "
                "no machine can be emptied for it"
            )
        return min(found, key=lambda aside: (aside.gpus, aside.machine))

    def _aside(self, machine: str, here: Iterable[str], wanted: int, order: int) -> _Aside | None:
        """Those of `here` that leave `machine` so that it has `wanted` GPUs, the small first (1) or the large (-1)."""
        free = dict(self.free)
        leaving: list[tuple[str, str]] = []
        for name in sorted(here, key=lambda n: (order * self.kinds[n].gpus, n)):
            if free[machine] >= wanted:
                break
            kind = self.kinds[name]
            others = (other for other in self._of(kind.pool) if other != machine)
            if kind.gpus and (to := best_machine(free, others, kind.gpus)) is not None:
                leaving.append((name, to))
                free[to] -= kind.gpus
                free[machine] += kind.gpus
        if free[machine] < wanted:
            return None
        return _Aside(machine, tuple(leaving), sum(self.kinds[name].gpus for name, _ in leaving))

    def _move(self, aside: _Aside) -> Iterator[Step]:
        for name, to in aside.leaving:
            kind = self.kinds[name]
            new = next(self._names[kind.stage])
            self._put(new, kind, (to,))
            self.ready.add(new)
            self._leave(name)
            self._instead[name] = new
            # Who moves aside may have stood in for another before: steps that name either mean the newest.
            for other, taken in self._instead.items():
                self._instead[other] = new if taken == name else taken
            yield from (Start(new, kind, to, empties=aside.machine), AwaitReady(new), Drain(name), Stop(name))

    def _put(self, name: str, kind: Kind, machines: Iterable[str]) -> None:
        self.kinds[name] = kind
        self.on.setdefault(name, [])
        for machine in machines:
            self.on[name].append(machine)
            if machine in self.free:  # else it is cordoned, or gone
                self.free[machine] -= gpus_of_pod(kind)

    def _leave(self, name: str) -> None:
        self.ready.discard(name)
        for machine in self.on.pop(name):
            if machine in self.free:
                self.free[machine] += gpus_of_pod(self.kinds[name])

    def _of(self, pool: str) -> list[str]:
        # Asked for each replica of each machine that might be emptied, and always the same.
        if pool not in self._machines:
            self._machines[pool] = sorted(name for name, pools in self._pools.items() if pool in pools)
        return self._machines[pool]


def gpus_of_pod(kind: Kind) -> int:
    """GPUs of a pod."""
    return kind.gpus // kind.pods


def best_machine(free: Mapping[str, int], machines: Iterable[str], gpus: int) -> str | None:
    """The machine that is fullest afterwards."""
    return min((m for m in machines if free[m] >= gpus), key=lambda m: (free[m], m), default=None)
