"""What serves on a cordoned machine is started elsewhere before it goes, where there is room."""

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cascadia.controller.move.backend import move
from cascadia.controller.move.evacuate import evacuation
from cascadia.controller.move.reconcile import Names, reconcile
from cascadia.controller.move.state import Desired, Kind, Machine, Observed, Replica, Routing
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop, apply

SMALL, LARGE = Kind("small", "a", 1), Kind("large", "a", 4)
WIDE = Kind("wide", "a", 8, pods=2)
POOL = frozenset({"a"})


def fleet(*placed: tuple[Kind, str], machines: str = "ab", cordoned: str = "", gpus: int = 8) -> Observed:
    """Ready replicas, each with its machines (a letter each)."""
    there = {name: Machine(gpus, POOL) for name in machines if name not in cordoned}
    replicas = tuple(Replica(f"{k.stage}-{i}", k, "ready", on=tuple(on)) for i, (k, on) in enumerate(placed))
    stages = tuple(sorted({kind.stage for kind, _ in placed}))
    return Observed(replicas, {"a": gpus * len(there)}, Routing(stages), machines=there)


def as_it_is(observed: Observed) -> Desired:
    kinds = [replica.kind for replica in observed.replicas]
    assert observed.routing is not None
    return Desired({kind: kinds.count(kind) for kind in kinds}, observed.routing)


def told(observed: Observed) -> list[str]:
    return [str(step) for step in reconcile(observed, as_it_is(observed))]


def test_a_sole_replica_on_a_cordoned_machine_is_started_elsewhere_first() -> None:
    observed = fleet((SMALL, "a"), (LARGE, "b"), cordoned="b")
    assert told(observed) == [
        "start large-0 (4 of a) to empty b",
        "await large-0",
        "drain large-1",
        "stop large-1",
    ]


def test_who_would_be_missed_most_goes_first() -> None:
    observed = fleet((SMALL, "a"), (SMALL, "b"), (LARGE, "b"), cordoned="b")
    assert [step.split()[1] for step in told(observed) if step.startswith("start")] == ["large-0", "small-2"]


def test_nothing_is_done_where_no_machine_has_room() -> None:
    scattered = fleet((SMALL, "a"), (SMALL, "c"), (LARGE, "b"), machines="abc", cordoned="b", gpus=4)
    assert told(scattered) == []
    assert told(fleet((SMALL, "a"), (SMALL, "b"))) == []


def test_a_replica_of_several_pods_needs_room_for_all_of_them() -> None:
    assert told(fleet((WIDE, "ab"), machines="abc", cordoned="b", gpus=4)) == []
    assert (
        told(fleet((WIDE, "ab"), machines="abcd", cordoned="b", gpus=4))[0]
        == "start wide-1 (8 of a) to empty b"
    )


def test_where_gpus_are_short_only_the_last_of_a_stage_are_saved() -> None:
    observed = fleet((SMALL, "a"), (SMALL, "b"), (LARGE, "b"), cordoned="b")
    steps = evacuation(observed, Names(set()), last_only=True)
    assert [step.kind for step in steps if isinstance(step, Start)] == [LARGE]


def test_a_plan_that_gives_up_a_replica_gives_up_the_one_on_the_cordoned_machine() -> None:
    observed = fleet((SMALL, "a"), (SMALL, "b"), cordoned="b")
    (drain, stop) = reconcile(observed, Desired({SMALL: 1}, Routing(("small",))))
    assert (drain, stop) == (Drain("small-1"), Stop("small-1"))


class Machines:
    """A backend that places starts where there is room, never on what is cordoned, and remembers the fewest ready."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed
        self.fewest = {kind.stage: observed.ready(kind.stage) for kind in (SMALL, LARGE)}

    async def observe(self) -> Observed:
        return self.observed

    async def take(self, step: Step) -> None:
        self.observed = apply(self.observed, step)
        if isinstance(step, Start):
            on = next(name for name in self.observed.machines if self.free(name) >= step.kind.gpus)
            self._put(replace(self.observed.replica(step.name), on=(on,)))
        for stage in self.fewest:
            self.fewest[stage] = min(self.fewest[stage], self.observed.ready(stage))

    def free(self, machine: str) -> int:
        taken = sum(r.kind.gpus for r in self.observed.replicas if machine in r.on)
        return self.observed.machines[machine].gpus - taken

    def _put(self, changed: Replica) -> None:
        others = tuple(r for r in self.observed.replicas if r.name != changed.name)
        self.observed = replace(self.observed, replicas=(*others, changed))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.sampled_from("abc"))
def test_a_machine_is_emptied_and_no_stage_loses_a_ready_replica(small: list[str], large: str) -> None:
    """Twenty GPUs are left of thirty, and at most ten taken, in pieces of one and of four."""
    observed = fleet(*((SMALL, on) for on in small), (LARGE, large), machines="abc", cordoned="c", gpus=10)
    backend = Machines(observed)
    before = dict(backend.fewest)
    asyncio.run(move(backend, as_it_is(observed)))
    assert not any("c" in replica.on for replica in backend.observed.replicas)
    assert backend.fewest == before


def test_steps_of_one_replica_stand_together() -> None:
    observed = fleet((LARGE, "b"), (SMALL, "b"), cordoned="b")
    kinds = [type(step) for step in reconcile(observed, as_it_is(observed))]
    assert kinds == [Start, AwaitReady, Drain, Stop] * 2
