"""What a dry run shows is what is done: the same steps in the same order, on any fleet."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.state import State, UnderWay
from cascadia.controller.move.carry_out import Journal, carry_out, foresee
from cascadia.controller.move.reconcile import Blocked, rollout
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing, reached
from cascadia.controller.move.steps import Step, apply
from tests.examples import examples
from tests.unit.controller.fleets import moves

TO, BACK = Path("new/plan.json"), Path("old/plan.json")


class Kept:
    """A state in memory."""

    def __init__(self) -> None:
        self.told: list[Entry] = []
        self.move: UnderWay | None = None
        self.plan = BACK

    def add(self, entry: Entry) -> None:
        self.told.append(entry)

    def entries(self) -> list[Entry]:
        return self.told

    def in_force(self) -> Path:
        return self.plan

    def put_in_force(self, plan: Path) -> None:
        self.plan = plan

    def under_way(self) -> UnderWay | None:
        return self.move

    def put_under_way(self, move: UnderWay | None) -> None:
        self.move = move


class Machine:
    """A fleet in memory, whose steps go well, and the plan that it is to run."""

    def __init__(self, observed: Observed, wanted: Desired) -> None:
        self.now = observed
        self.wanted = wanted
        self.backend = self

    async def observe(self) -> Observed:
        return self.now

    async def take(self, step: Step) -> None:
        self.now = apply(self.now, step)

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        return Desired(
            self.wanted.counts, self.wanted.routing, need_rps, self.wanted.capacity_rps, self.wanted.surge
        )


def both(observed: Observed, wanted: Desired, at_once: int) -> tuple[list[str], list[str], Observed]:
    """What is shown, what the journal says was done, and what then runs."""

    async def main() -> tuple[list[str], list[str], Observed]:
        begun = UnderWay(TO, BACK, dict(wanted.need_rps), dict(observed.need_rps))
        machine, state = Machine(observed, wanted), Kept()
        shown = [str(step) for step in await foresee(begun, machine, at_once=at_once)]
        assert machine.now == observed, "nothing is done for that"
        kept: State = state
        await carry_out(begun, machine, Journal(kept, lambda _: None, lambda: 0.0), at_once=at_once)
        return shown, [entry.what for entry in state.told if entry.kind == "step"], machine.now

    return asyncio.run(main())


@given(moves(), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_a_dry_run_shows_the_steps_of_the_move_in_their_order(
    move: tuple[Observed, Desired], at_once: int
) -> None:
    observed, wanted = move
    try:
        shown, done, after = both(observed, wanted, at_once)
    except Blocked:
        return
    assert shown == done
    assert reached(after, wanted)


@pytest.mark.parametrize("at_once", [1, 4])
def test_it_is_not_the_first_list_of_steps_that_is_carried_out(at_once: int) -> None:
    """With needs, which a dry run once left out, and decided anew after each batch: other steps than at first."""
    old, new = Kind("small", "a", 1, "v1"), Kind("small", "a", 1, "v2")
    replicas = tuple(Replica(f"small-{i}", old, "ready") for i in range(3))
    routing = Routing(("small",))
    observed = Observed(replicas, {"a": 4}, routing, {"small": 3.0})
    wanted = Desired({new: 4}, routing, {"small": 3.0})
    shown, done, _ = both(observed, wanted, at_once)
    assert shown == done
    without = rollout(Observed(replicas, {"a": 4}, routing), Desired({new: 4}, routing), at_once=at_once)
    if at_once > 1:
        assert [str(step) for step in without.steps] != done
