"""Scores that the loop plans with: it waits for those of a change where that costs nobody time, and plans again for
many more."""

from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.controller.decide.decide import Forecast
from cascadia.controller.decide.misses import Misses
from cascadia.controller.decide.replan import Prospect, Replanned
from cascadia.controller.memory.history import Entry, read_history
from cascadia.controller.scale.size import Load
from cascadia.domain.objective import Objective
from cascadia.files.plan_file import write_plan
from tests.unit.controller.machine import two_stages
from tests.unit.controller.move.test_loop import CHANGE_S, HOUR_S, Evaluations, World, growing
from tests.unit.controller.traffic import joined, traffic

FEW, EVERY_S, RATE_RPS = 20, 10.0, 0.5
"""Evaluations that replace those of before, and how often one comes; and how often a request does."""

LEAST_COST = Objective("cost", 0.95, None, 60.0)


class Routers:
    """Routers that have as many requests in hand as a test says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.in_hand = 1.0

    async def load(self) -> Load | None:
        return Load(RATE_RPS * self.world.now_s, {"large": self.in_hand})


def changed(tmp_path: Path, **settings: object) -> World:
    """Harder questions with longer answers from `CHANGE_S` on, which another plan is wanted for."""
    hour = traffic(2, HOUR_S, start_s=CHANGE_S, output_tokens=600.0, score=50.0)
    settings = {"least_evaluations": FEW, "least_requests": 20} | settings
    world = World(tmp_path, joined(traffic(1, CHANGE_S), hour), **settings)
    world.answer = growing(world.answer)
    plan = two_stages(1, 1)
    stages = tuple(replace(stage, rate_rps=RATE_RPS) for stage in plan.predicted.stages)
    predicted = replace(plan.predicted, rate_rps=RATE_RPS, stages=stages)
    plan = replace(plan, predicted=predicted, objective=LEAST_COST)
    for name in ("old", "new"):
        (tmp_path / name).mkdir(exist_ok=True)
        write_plan(plan, tmp_path / name / "plan.json")
    return world


def alarm_s(world: World) -> float:
    """Time when the change was noticed."""
    return next(entry.at_s for entry in read_history(world.settings.folder) if "since_s" in entry.facts)


@pytest.mark.long
def test_a_change_is_planned_for_once_with_enough_scores_of_it(tmp_path: Path) -> None:
    world = changed(tmp_path, scores_wait_s=HOUR_S)
    (decision,) = world.live(
        CHANGE_S + HOUR_S - 60.0, world.controller(Evaluations(world), load=Routers(world))
    )
    assert decision.action == "move"
    assert world.asked[0].table is not None
    enough_s = CHANGE_S + 4 * FEW * EVERY_S
    assert alarm_s(world) < enough_s - 60.0 < world.asked_at_s[0] < enough_s + 180.0


@pytest.mark.long
def test_scores_of_a_change_are_waited_for_so_long_at_most(tmp_path: Path) -> None:
    world = changed(tmp_path, more_evaluations=10**6, scores_wait_s=600.0)
    world.live(CHANGE_S + HOUR_S - 60.0, world.controller(Evaluations(world), load=Routers(world)))
    assert world.asked_at_s[0] - alarm_s(world) == 600.0


def late(tmp_path: Path, *, few: int) -> World:
    """The same, and nobody is in time from the change on."""
    world = changed(tmp_path, more_evaluations=10**6, scores_wait_s=HOUR_S, least_evaluations=few)
    world.machine.now = replace(world.machine.now, gpus={"gpu": 300})
    routers = Routers(world)
    controller = world.controller(Evaluations(world), load=routers)
    world.live(CHANGE_S, controller)
    assert not world.asked
    routers.in_hand = 1e3
    world.live(CHANGE_S + HOUR_S - 60.0, controller)
    return world


@pytest.mark.long
def test_a_minute_is_waited_for_scores_where_requests_are_late(tmp_path: Path) -> None:
    world = late(tmp_path, few=1000)
    assert world.asked_at_s[0] - alarm_s(world) == 60.0
    assert world.asked[0].table is None


@pytest.mark.long
def test_few_scores_do_where_requests_are_late(tmp_path: Path) -> None:
    world = late(tmp_path, few=FEW)
    assert world.asked_at_s[0] == alarm_s(world)
    assert world.asked[0].table is not None


def test_scores_are_not_waited_for_where_nobody_sees_to_the_load(tmp_path: Path) -> None:
    world = changed(tmp_path, more_evaluations=10**6, scores_wait_s=HOUR_S)
    world.live(CHANGE_S + HOUR_S - 60.0, world.controller(Evaluations(world)))
    assert world.asked_at_s[0] == alarm_s(world)


@pytest.mark.long
def test_what_interrupts_a_wait_for_scores_is_planned_for(tmp_path: Path) -> None:
    world = changed(tmp_path, more_evaluations=10**6, scores_wait_s=HOUR_S)
    controller = world.controller(Evaluations(world), load=Routers(world))
    world.live(CHANGE_S + 900.0, controller)
    assert not world.asked
    world.machine.now = replace(world.machine.now, gpus={"gpu": 2}, replicas=world.machine.now.replicas[:2])
    world.live(CHANGE_S + 1200.0, controller)
    assert [request.gpus for request in world.asked] == [{"gpu": 2}]


def made_with(tmp_path: Path, questions: int, *, shadowed: bool = True, **settings: object) -> World:
    """Traffic that never changes, and a plan in force that was made with so many questions; none is better."""
    world, plan = World(tmp_path, traffic(1, 10 * HOUR_S), **settings), two_stages(1, 1)
    quality = replace(plan.predicted.quality, questions=questions)
    predicted = replace(plan.predicted, quality=quality)
    write_plan(replace(plan, predicted=predicted, objective=LEAST_COST), tmp_path / "old" / "plan.json")
    if shadowed:
        (tmp_path / "old" / "quality.parquet").write_bytes(b"of few")
    world.answer = Replanned(
        tmp_path / "new" / "plan.json",
        Prospect(Forecast(20.0, Misses(), {"gpu": 3})),
        Prospect(Forecast(20.0, Misses(), {"gpu": 3})),
    )
    return world


def told(world: World) -> list[Entry]:
    entries = read_history(world.settings.folder) if world.asked else []
    return [entry for entry in entries if entry.kind == "alarm"]


def test_a_plan_is_made_anew_each_time_that_evaluations_are_so_many_times_as_many(tmp_path: Path) -> None:
    world = made_with(tmp_path, 200)
    decisions = world.live(10 * HOUR_S, world.controller(Evaluations(world)))
    assert [decision.action for decision in decisions] == ["keep", "keep"]
    first, second = told(world)
    assert {first.facts["watched"], second.facts["watched"]} == {"evaluations"}
    assert 800 * EVERY_S <= first.at_s <= 800 * EVERY_S + 660.0
    assert 4 * first.at_s <= second.at_s <= 4 * first.at_s + 660.0
    assert "of 200 the plan was made with" not in second.what
    assert first.what.endswith("shadow evaluations tell of this traffic, of 200 the plan was made with")
    assert all(
        request.table is not None and request.table.read_bytes() == b"a table" for request in world.asked
    )


@pytest.mark.parametrize(("begun_s", "action"), [(5000.0, "move"), (2600.0, "keep")])
def test_a_cautious_plan_is_left_though_traffic_changes_often(
    tmp_path: Path, begun_s: float, action: str
) -> None:
    """Less of a stage is given up where it was there for want of scores: no change will want it back. A plan for the
    traffic of before may hold what that will."""
    world = made_with(tmp_path, 200, startup_s=300.0)
    assert isinstance(world.answer, Replanned)
    cheaper = Prospect(Forecast(10.0, Misses(), {"gpu": 3}), {"small": 1.0, "large": 0.5})
    world.answer = replace(world.answer, candidate=cheaper)
    controller = world.controller(Evaluations(world))
    for since_s in (60.0, 2460.0, 4860.0):
        controller.state.add(Entry(since_s + 60.0, "alarm", "output length changed", {"since_s": since_s}))
    controller.state.add(Entry(begun_s, "begun", "to old"))
    (decision,) = world.live(4 * HOUR_S, controller)
    assert decision.action == action, decision.why


def test_it_waits_until_the_last_move_is_long_enough_ago(tmp_path: Path) -> None:
    world = made_with(tmp_path, 200)
    controller = world.controller(Evaluations(world))
    controller.state.add(Entry(7900.0, "begun", "to old"))
    world.live(4 * HOUR_S, controller)
    (alarm,) = told(world)
    assert 7900.0 + 1800.0 <= alarm.at_s <= 7900.0 + 1800.0 + 660.0


def test_evaluations_of_before_the_last_change_tell_nothing_of_this_traffic(tmp_path: Path) -> None:
    world = made_with(tmp_path, 200)
    controller = world.controller(Evaluations(world))
    controller.state.add(Entry(3700.0, "alarm", "output length changed", {"since_s": 3600.0}))
    world.live(4 * HOUR_S, controller)
    assert 3600.0 + 800 * EVERY_S <= told(world)[-1].at_s <= 3600.0 + 800 * EVERY_S + 660.0


def test_a_plan_on_the_specs_own_scores_is_left_on_them(tmp_path: Path) -> None:
    """People may have given those; a judge gives these."""
    world = made_with(tmp_path, 200, shadowed=False)
    assert world.live(10 * HOUR_S, world.controller(Evaluations(world))) == []
