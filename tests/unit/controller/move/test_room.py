"""GPUs are of machines: no start is planned that finds no machine, and one is emptied where that helps."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, count, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cascadia.controller.move.backend import move
from cascadia.controller.move.bin_packing import NoRoom, with_room
from cascadia.controller.move.reconcile import Blocked, reconcile, rollout
from cascadia.controller.move.state import Desired, Kind, Machine, Observed, Replica, Routing, reached
from cascadia.controller.move.steps import Drain, Start, Step, Stop, apply
from tests.examples import examples
from tests.unit.controller.moves import faults

GPUS = 4
ONE, TWO, FOUR = (Kind(stage, "a", n) for stage, n in (("small", 1), ("medium", 2), ("large", 4)))
NAMES = ("a", "b", "c", "d")


def fleet(*on_each: tuple[Kind, ...], per_machine: int = GPUS) -> Observed:
    """Ready replicas, by machine; the router sends to the stages that there are."""
    pool = frozenset({"a"})
    machines = {name: Machine(per_machine, pool) for name, _ in zip(NAMES, on_each, strict=False)}
    number = count()
    replicas = tuple(
        Replica(f"{kind.stage}-{next(number)}", kind, "ready", on=(name,))
        for name, kinds in zip(NAMES, on_each, strict=False)
        for kind in kinds
    )
    stages = tuple(sorted({r.kind.stage for r in replicas}))
    gpus = {"a": per_machine * len(machines)}
    return Observed(replicas, gpus, Routing(stages) if stages else None, machines=machines)


def wanted(**counts: int) -> Desired:
    kinds = {kind.stage: kind for kind in (ONE, TWO, FOUR)}
    found = {kinds[stage]: n for stage, n in counts.items() if n}
    return Desired(found, Routing(tuple(sorted(k.stage for k in found))))


def told(observed: Observed, desired: Desired) -> list[str]:
    return [str(step) for step in reconcile(observed, desired)]


def test_a_start_is_meant_for_the_machine_that_it_leaves_fullest() -> None:
    observed = fleet((ONE,), (ONE, TWO), ())
    starts = [s for s in reconcile(observed, wanted(small=3, medium=1)) if isinstance(s, Start)]
    assert [start.machine for start in starts] == ["b"]


def test_the_large_are_started_before_the_small_that_would_take_their_place() -> None:
    starts = [s for s in reconcile(fleet((), ()), wanted(small=4, large=1)) if isinstance(s, Start)]
    assert [(start.kind, start.machine) for start in starts] == [(FOUR, "a"), *[(ONE, "b")] * 4]


def test_one_machine_is_emptied_for_what_finds_none() -> None:
    """Two and three of eight GPUs are free, none of four: who moves over is started before the other is drained."""
    observed = fleet((ONE, ONE), (ONE,))
    steps = reconcile(observed, wanted(small=3, large=1))
    assert [str(step) for step in steps] == [
        "start small-3 (1 of a) to empty b",
        "await small-3",
        "drain small-2",
        "stop small-2",
        "start large-0 (4 of a)",
        "await large-0",
        "route to large, small",
    ]
    assert [(step.machine, step.empties) for step in steps if isinstance(step, Start)] == [
        ("a", "b"),
        ("b", ""),
    ]


def test_where_none_can_be_emptied_it_says_so_before_anything_is_done() -> None:
    observed = fleet(*[(ONE, TWO)] * 4)
    said = r"large-0 takes 4 GPUs of one machine of a, there are 1 on a, 1 on b, 1 on c, 1 on d, and no"
    assert observed.gpus["a"] - observed.used("a") == 4
    with pytest.raises(Blocked, match=said):
        reconcile(observed, wanted(small=4, medium=4, large=1))


def test_who_was_moved_aside_leaves_in_the_place_of_the_one_that_was_to() -> None:
    steps: list[Step] = [Start("large-0", FOUR), Drain("small-2"), Stop("small-2")]
    names = {"small": iter(["small-9"])}
    found = with_room(fleet((ONE, ONE), (ONE,)), steps, names)
    assert [str(step) for step in found][-2:] == ["drain small-9", "stop small-9"]


def test_who_has_begun_to_start_is_counted_where_it_will_go() -> None:
    """Three of four GPUs are free on one machine, and all of the other, for which what starts is meant."""
    observed = fleet((ONE,), ())
    starting = replace(observed, replicas=(*observed.replicas, Replica("large-0", FOUR, "starting")))
    assert machines_of(observed, Start("large-1", FOUR), Start("medium-0", TWO)) == ["b", "a"]
    assert machines_of(starting, Start("medium-0", TWO), Start("small-9", ONE)) == ["a", "a"]
    with pytest.raises(NoRoom, match="there are 3 on a, 0 on b"):
        machines_of(starting, Start("large-1", FOUR))


def machines_of(observed: Observed, *steps: Step) -> list[str]:
    return [step.machine for step in with_room(observed, steps, {}) if isinstance(step, Start)]


@st.composite
def scattered(draw: st.DrawFn) -> Observed:
    """Ready replicas on machines that hold them, in any mixture."""
    on_each = []
    for _ in range(draw(st.integers(2, 3))):
        kinds = draw(st.lists(st.sampled_from((ONE, TWO)), max_size=GPUS))
        while sum(kind.gpus for kind in kinds) > GPUS:
            kinds.pop()
        on_each.append(tuple(kinds))
    return fleet(*on_each)


@st.composite
def moves_on_machines(draw: st.DrawFn) -> tuple[Observed, Desired]:
    observed = draw(scattered())
    counts = {kind.stage: draw(st.integers(0, 4)) for kind in (ONE, TWO, FOUR)}
    if not any(counts.values()):
        counts["small"] = 1
    return observed, wanted(**counts)


def taken(observed: Observed) -> Counter[str]:
    found: Counter[str] = Counter()
    for replica in observed.replicas:
        for machine in replica.on:
            found[machine] += replica.kind.gpus // replica.kind.pods
    return found


class Scattering:
    """Starts each replica on the emptiest machine that may take it, whatever was wished; and checks each step."""

    def __init__(self, observed: Observed, desired: Desired) -> None:
        self.observed = observed
        self._desired = desired

    async def observe(self) -> Observed:
        return self.observed

    async def take(self, step: Step) -> None:
        assert not faults(self.observed, step, self._desired, 0.0)
        self.observed = apply(self.observed, step)
        if isinstance(step, Start):
            used = taken(self.observed)
            asked = [step.machine] if step.empties else self.observed.machines
            may = [m for m in asked if used[m] + step.kind.gpus <= GPUS]
            assert may, f"{step} finds no machine: {used}"
            on = (min(may, key=lambda m: (used[m], m)),)
            replicas = tuple(replace(r, on=on) if r.name == step.name else r for r in self.observed.replicas)
            self.observed = replace(self.observed, replicas=replicas)


@pytest.mark.slow
@given(moves_on_machines())
@example((fleet((TWO, ONE), (TWO, ONE), (TWO, ONE)), wanted(medium=3, large=1)))
@example((fleet((TWO,), (TWO,), (TWO,)), wanted(medium=3, large=1)))
@example((fleet((ONE, ONE), (TWO,), (ONE,)), wanted(medium=3, large=1)))
@settings(max_examples=examples(150), deadline=None)
def test_every_start_finds_a_machine_though_the_scheduler_scatters(case: tuple[Observed, Desired]) -> None:
    observed, desired = case
    backend = Scattering(observed, desired)
    try:
        steps = asyncio.run(move(backend, desired))
    except Blocked:
        return
    assert reached(backend.observed, desired)
    assert steps <= 12 * (len(observed.replicas) + sum(desired.counts.values()) + 1)


def some_machine_can_be_emptied(observed: Observed, gpus: int) -> bool:
    """By trying everything: each part of each machine's replicas, onto others in every way."""
    free = {name: GPUS - taken(observed)[name] for name in observed.machines}
    if max(free.values()) >= gpus:
        return True
    for name in free:
        here = [r.kind.gpus for r in observed.replicas if r.on == (name,)]
        others = [other for other in free if other != name]
        parts = (part for n in range(len(here) + 1) for part in combinations(here, n))
        for part in parts:
            if free[name] + sum(part) < gpus:
                continue
            for places in product(others, repeat=len(part)):
                to: Counter[str] = Counter()
                for place, size in zip(places, part, strict=True):
                    to[place] += size
                if all(to[other] <= free[other] for other in others):
                    return True
    return False


def fresh() -> Iterator[str]:
    return (f"small-{n}" for n in count(100))


@pytest.mark.slow
@given(scattered(), st.sampled_from((TWO, FOUR)))
@settings(max_examples=examples(300), deadline=None)
def test_a_machine_is_emptied_wherever_one_can_be(observed: Observed, kind: Kind) -> None:
    names = {"small": fresh(), "medium": (f"medium-{n}" for n in count(100))}
    try:
        steps = with_room(observed, [Start("new-0", kind)], names)
    except NoRoom:
        assert not some_machine_can_be_emptied(observed, kind.gpus)
        return
    backend = observed
    for step in steps:
        backend = apply(backend, step)
        if isinstance(step, Start):
            placed = tuple(
                replace(r, on=(step.machine,)) if r.name == step.name else r for r in backend.replicas
            )
            backend = replace(backend, replicas=placed)
        assert max(taken(backend).values()) <= GPUS


def test_machines_that_are_not_known_change_nothing() -> None:
    observed = replace(fleet((ONE, ONE), (ONE,)), machines={})
    assert [s for s in rollout(observed, wanted(small=3, large=1)).steps if isinstance(s, Drain)] == []


def test_each_machine_is_asked_once_what_pools_it_is_of_however_many_move_aside() -> None:
    asked: list[object] = []

    class Pools(frozenset[str]):
        def __contains__(self, pool: object) -> bool:
            asked.append(pool)
            return frozenset.__contains__(self, pool)

    small, new = Kind("small", "h", 1, "a"), Kind("small", "h", 2, "b")
    machines = {f"n{i}": Machine(8, Pools({"h"})) for i in range(9)}
    replicas = tuple(Replica(f"small-{i}", small, "ready", on=(f"n{i % 8}",)) for i in range(48))
    routing, need = Routing(("small",)), {"small": 40.0}
    observed = Observed(replicas, {"h": 72}, routing, need, machines)
    desired = Desired({new: 24}, routing, need, {small: 1.0, new: 2.0})
    assert rollout(observed, desired).steps
    assert len(asked) == len(machines)
