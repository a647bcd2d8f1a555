"""The loop, from traffic to steps, on virtual time: what it does, what it leaves alone, and what survives its death."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.controller.decide.decide import Decision, Forecast
from cascadia.controller.decide.misses import Misses
from cascadia.controller.decide.replan import PlanningFailed, Prospect, Replanned, Request
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Detection
from cascadia.controller.detect.shadow_scores import ShadowEvaluations
from cascadia.controller.detect.windows import Samples
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry, read_history
from cascadia.controller.memory.state import UNDER_WAY, UnderWay, write_in_force
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing, reached
from cascadia.controller.move.steps import AwaitReady, Step, Stop, apply
from cascadia.controller.scale.load import LoadSource
from cascadia.controller.speed.watch import SpeedWatch
from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear, GearPrediction
from cascadia.domain.objective import Objective
from cascadia.domain.workload import Floats, Ints
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import three_stages
from cascadia_traces.formats.reading import read_trace
from tests.unit.controller.machine import two_stages
from tests.unit.controller.traffic import joined, traffic
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec

SMALL, LARGE = Kind("small", "gpu", 1), Kind("large", "gpu", 1)
OLD = Desired({SMALL: 1, LARGE: 2}, Routing(("small", "large"), (50.0,)))
NEW = Desired({SMALL: 2, LARGE: 1}, Routing(("small", "large"), (70.0,)))
HOUR_S = 3600.0
CHANGE_S = 6 * HOUR_S


class Dies(Exception):
    """The controller, in the middle of a move."""


class Machine:
    """A backend in memory. It refuses the `refuse`th step, and at the `dies`th its controller dies."""

    def __init__(self) -> None:
        kinds = [kind for kind, count in OLD.counts.items() for _ in range(count)]
        replicas = tuple(Replica(f"{kind.stage}-{i}", kind, "ready") for i, kind in enumerate(kinds))
        self.now = Observed(replicas, {"gpu": 3}, OLD.routing)
        self.steps: list[Step] = []
        self.refuse = self.dies = -1
        self.refuses: tuple[type, ...] = ()
        """Sorts of steps that it refuses as long as they stand here."""

    async def observe(self) -> Observed:
        return self.now

    async def take(self, step: Step) -> None:
        if len(self.steps) == self.dies:
            self.dies = -1
            raise Dies
        if len(self.steps) == self.refuse:
            self.refuse = -1
            raise StepFailed(f"{step}: no such weights")
        if isinstance(step, self.refuses):
            raise StepFailed(f"{step}: the router refused its new plan")
        self.now = apply(self.now, step)
        self.steps.append(step)


class Plans:
    """A fleet whose plans are known by their folder: `old` and `new`."""

    def __init__(self, machine: Machine) -> None:
        self.backend = machine

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        return replace(OLD if plan.parent.name == "old" else NEW, need_rps=need_rps)


class World:
    """Traffic that doubles after six hours, a planner that finds `new` for it, and a clock that is wound by hand."""

    def __init__(self, tmp_path: Path, samples: Samples | None = None, **settings: object) -> None:
        self.machine = Machine()
        self.samples = samples or joined(
            traffic(1, CHANGE_S), traffic(2, 2 * HOUR_S, start_s=CHANGE_S, rate_rps=1.0)
        )
        self.now_s = 0.0
        self.asked: list[Request] = []
        self.asked_at_s: list[float] = []
        # A window for each tick.
        settings = {"detection": Detection(window_s=60.0)} | settings
        self.settings = Settings(tmp_path, tmp_path / "cascade.yaml", **settings)  # type: ignore[arg-type]
        self.answer: Replanned | PlanningFailed = Replanned(
            tmp_path / "new" / "plan.json",
            Prospect(Forecast(20.0, Misses(), {"gpu": 3}), {"small": 1.0, "large": 1.0}),
            Prospect(Forecast(8.0, Misses(), {"gpu": 3}), {"small": 1.0, "large": 0.5}),
        )
        (tmp_path / "old").mkdir(exist_ok=True)
        write_in_force(tmp_path, tmp_path / "old" / "plan.json")

    async def replan(self, request: Request, limit_s: float) -> Replanned:
        self.asked.append(request)
        self.asked_at_s.append(self.now_s)
        if isinstance(self.answer, PlanningFailed):
            raise self.answer
        return self.answer

    def controller(
        self,
        evaluations: ShadowEvaluations | None = None,
        speeds: SpeedWatch | None = None,
        load: LoadSource | None = None,
    ) -> Controller:
        return Controller(
            self.settings,
            Plans(self.machine),
            lambda: self.samples.between(0.0, self.now_s),
            self.replan,
            clock=lambda: self.now_s,
            evaluations=evaluations,
            speeds=speeds,
            load=load,
        )

    def live(self, until_s: float, controller: Controller | None = None) -> list[Decision]:
        """A tick a minute."""
        controller = controller or self.controller()

        async def main() -> list[Decision]:
            await controller.adopt()
            found = []
            while self.now_s < until_s:
                self.now_s += 60.0
                await controller.scale()
                decision = await controller.tick()
                found += [] if decision is None else [decision]
            return found

        return asyncio.run(main())

    def told(self, controller: Controller) -> list[str]:
        return [entry.kind for entry in controller.state.entries()]


def test_a_change_of_traffic_ends_in_another_plan_and_each_step_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    controller = world.controller()
    decisions = world.live(CHANGE_S + HOUR_S, controller)
    assert [decision.action for decision in decisions] == ["move"]
    assert reached(world.machine.now, NEW)
    assert controller.in_force() == tmp_path / "new" / "plan.json"
    assert world.told(controller) == ["alarm", "decision", "begun", *["step"] * 5, "moved"]
    assert not (tmp_path / UNDER_WAY).exists()


def test_it_plans_for_what_came_since_the_change(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.live(CHANGE_S + HOUR_S)
    (request,) = world.asked
    assert 1.0 < request.rate_rps < 1.3  # the upper end of what 200 requests tell
    assert request.gpus == {"gpu": 3}
    assert request.today == tmp_path / "old" / "plan.json"
    assert request.trace.exists()


@pytest.mark.long
def test_stationary_traffic_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path, traffic(1, 24 * HOUR_S))
    assert world.live(24 * HOUR_S) == []
    assert world.machine.steps == []


def test_lengths_that_swing_are_planned_for_once_an_hour_and_with_an_hour_of_them(tmp_path: Path) -> None:
    """Not for the length of each turn, which has gone when the plan is there."""
    turn_s, turns = 900.0, 12
    parts = [
        traffic(i, turn_s, rate_rps=2.0, start_s=i * turn_s, output_tokens=400.0 if i % 2 else 60.0)
        for i in range(turns)
    ]
    world = World(tmp_path, joined(*parts), detection=Detection(window_s=10.0))
    world.answer = PlanningFailed("keep today's")
    controller = world.controller()
    world.live(turn_s * turns, controller)
    alarms = [entry for entry in controller.state.entries() if entry.kind == "alarm"]
    swings = [entry for entry in alarms if entry.facts["watched"] == "swings"]
    assert len(swings) in (1, 2)
    assert len(alarms) <= 5
    (request, *_) = (
        r for r, at_s in zip(world.asked, world.asked_at_s, strict=True) if at_s == swings[0].at_s
    )
    planned = read_trace(request.trace)
    assert 0.25 < (planned.output_tokens > 155).mean() < 0.75


def test_a_dry_run_decides_and_moves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, dry_run=True)
    controller = world.controller()
    assert [d.action for d in world.live(CHANGE_S + HOUR_S, controller)] == ["move"]
    assert world.machine.steps == []
    assert "(dry run)" in controller.state.entries()[-1].what


def test_where_planning_fails_todays_plan_stays_and_the_history_says_why(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = PlanningFailed("planning took longer than 300 s")
    (decision,) = world.live(CHANGE_S + HOUR_S)
    assert str(decision) == "keep: no new plan: planning took longer than 300 s"
    assert world.machine.steps == []


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("at", range(5))
def test_a_step_that_fails_rolls_back_to_the_last_good_plan(tmp_path: Path, at: int) -> None:
    world = World(tmp_path)
    world.machine.refuse = at
    controller = world.controller()
    world.live(CHANGE_S + HOUR_S, controller)
    assert reached(world.machine.now, OLD)
    assert controller.in_force() == tmp_path / "old" / "plan.json"
    last = controller.state.entries()[-1]
    assert last.kind == "rolled-back"
    assert "no such weights" in last.what


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("at", range(5))
def test_a_controller_killed_at_any_step_is_followed_by_one_that_ends_the_move(
    tmp_path: Path, at: int
) -> None:
    world = World(tmp_path)
    world.machine.dies = at
    with pytest.raises(Dies):
        world.live(CHANGE_S + HOUR_S)
    assert (tmp_path / UNDER_WAY).exists()
    follower = world.controller()
    world.live(world.now_s, follower)
    assert reached(world.machine.now, NEW)
    assert follower.in_force() == tmp_path / "new" / "plan.json"
    told = [kind for kind in world.told(follower) if kind != "step"]
    assert told[-3:] == ["begun", "adopted", "moved"], "it counts as one move"


@pytest.mark.parametrize("follower", [False, True])
def test_a_fleet_between_two_plans_is_brought_back_once_that_goes(tmp_path: Path, follower: bool) -> None:
    """As where a broken file has the router refuse all that it is told. What is of no plan would stay for ever."""
    world = World(tmp_path)
    world.machine.refuses = (AwaitReady, Stop)
    world.machine.now = replace(world.machine.now, gpus={"gpu": 4})
    controller = world.controller()
    old, new = (tmp_path / name / "plan.json" for name in ("old", "new"))
    asyncio.run(controller.carry_out(UnderWay(new, old, {}, {"small": 1.0, "large": 2.0})))
    assert world.told(controller)[-1] == "failed"
    world.live(180.0, controller)
    assert len(world.machine.now.replicas) == 4
    world.machine.refuses = ()
    world.live(300.0, world.controller() if follower else controller)
    assert reached(world.machine.now, OLD)
    assert world.told(controller)[-1] == "held"


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("at", range(5))
def test_a_move_whose_plan_has_gone_is_ended_where_it_began(tmp_path: Path, at: int) -> None:
    """Whoever follows would else end at each start, and the fleet stay between the two."""
    world = World(tmp_path)
    world.machine.dies = at
    with pytest.raises(Dies):
        world.live(CHANGE_S + HOUR_S)
    follower = world.controller()
    known = follower.fleet.desired

    def desired(plan: Path, need_rps: dict[str, float]) -> Desired:
        if plan.parent.name == "new":
            raise BadInput(str(plan), "no such file", "check the path")
        return known(plan, need_rps)

    follower.fleet.desired = desired  # type: ignore[method-assign]
    world.live(world.now_s, follower)
    assert reached(world.machine.now, OLD)
    assert follower.in_force() == tmp_path / "old" / "plan.json"
    assert follower.state.under_way() is None
    assert [e.what for e in follower.state.entries() if e.kind == "adopted"] == [
        f"back to old: the move cannot go on, {tmp_path}/new/plan.json: no such file; check the path"
    ]


def test_one_that_starts_later_learns_from_the_log_what_was_usual(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.now_s = CHANGE_S - HOUR_S
    assert [d.action for d in world.live(CHANGE_S + HOUR_S)] == ["move"]


def test_how_long_models_take_to_start_is_learnt(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def slow(step: Step, take: object = world.machine.take) -> None:
        world.now_s += 100.0 if isinstance(step, AwaitReady) else 0.0
        await take(step)  # type: ignore[operator]

    world.machine.take = slow  # type: ignore[method-assign]
    controller = world.controller()
    world.live(CHANGE_S + HOUR_S, controller)
    facts = [entry.facts for entry in controller.state.entries() if "startup_s" in entry.facts]
    assert [(fact["stage"], fact["startup_s"]) for fact in facts] == [("small", 100.0)]


def test_gpus_that_are_lost_are_planned_around(tmp_path: Path) -> None:
    world = World(tmp_path, traffic(1, 8 * HOUR_S))
    world.now_s = 2 * HOUR_S
    world.machine.now = replace(world.machine.now, gpus={"gpu": 2}, replicas=world.machine.now.replicas[:2])
    world.answer = Replanned(
        tmp_path / "new" / "plan.json",
        Prospect(Forecast(20.0, Misses(), {"gpu": 3})),
        Prospect(Forecast(30.0, Misses(), {"gpu": 3})),
    )
    decisions = world.live(3 * HOUR_S)
    assert world.asked[0].gpus == {"gpu": 2}
    assert {str(d) for d in decisions} == {"keep: the new plan takes 3 GPUs of gpu, and there are 2"}
    assert len(decisions) == 2


def test_gpus_that_come_back_are_planned_with_once(tmp_path: Path) -> None:
    world = World(tmp_path, traffic(1, 14 * HOUR_S))
    whole = world.machine.now
    controller = world.controller()
    world.live(2 * HOUR_S, controller)
    world.machine.now = replace(whole, gpus={"gpu": 2}, replicas=whole.replicas[:2])
    world.answer = Replanned(
        tmp_path / "new" / "plan.json",
        Prospect(Forecast(20.0, Misses(), {"gpu": 3})),
        Prospect(Forecast(30.0, Misses(), {"gpu": 3})),
    )
    world.live(2.1 * HOUR_S, controller)
    assert [request.gpus for request in world.asked] == [{"gpu": 2}]
    world.machine.now = whole
    # One that was begun anew finds it in the history.
    world.live(8 * HOUR_S, world.controller())
    assert [request.gpus for request in world.asked] == [{"gpu": 2}, {"gpu": 3}]
    told = [entry.what for entry in controller.state.entries() if entry.kind == "alarm"]
    assert told[-1] == "GPUs are back: 3 of gpu, it was planned for 2"


def test_gpus_that_come_back_are_asked_for_again_where_a_move_to_them_was_put_off(tmp_path: Path) -> None:
    world = World(tmp_path, traffic(1, 14 * HOUR_S))
    controller = world.controller()
    world.live(2 * HOUR_S, controller)
    controller.state.add(Entry(world.now_s, "decision", "keep", {"gpus": {"gpu": 2}}))
    controller.state.add(Entry(world.now_s, "begun", "to old"))
    decisions = world.live(4 * HOUR_S, controller)
    assert "the last move was" in decisions[0].why
    assert [decision.action for decision in decisions] == ["keep", "move"]


def test_what_a_cool_down_forbids_is_asked_again_when_it_has_passed(tmp_path: Path) -> None:
    world = World(tmp_path)
    controller = world.controller()
    controller.state.add(Entry(CHANGE_S + 60.0, "begun", "to old"))
    kept, moved = world.live(CHANGE_S + HOUR_S, controller)
    assert "the last move was" in kept.why
    assert kept.again_s == CHANGE_S + 60.0 + world.settings.move_policy.cooldown_s
    assert moved.action == "move"
    last = [entry for entry in controller.state.entries() if entry.kind == "decision"][-1]
    assert kept.again_s <= last.at_s < kept.again_s + 120.0


def test_a_plan_that_does_not_hold_is_left_though_traffic_is_the_same(tmp_path: Path) -> None:
    steady = traffic(1, 3 * HOUR_S)
    e2e_s = np.where(steady.arrival_s < 2 * HOUR_S, 5.0, 30.0)
    world = World(tmp_path, replace(steady, e2e_s=e2e_s))
    promised = replace(two_stages(1, 1), objective=Objective("cost", 0.95, None, 10.0))
    write_plan(promised, tmp_path / "old" / "plan.json")
    controller = world.controller()
    assert [d.action for d in world.live(3 * HOUR_S, controller)] == ["move"]
    alarm = next(entry for entry in controller.state.entries() if entry.kind == "alarm")
    assert alarm.what.startswith("the plan does not hold: ")
    assert 2 * HOUR_S + 300.0 < alarm.at_s < 2 * HOUR_S + 1200.0


def test_answers_that_shadow_evaluations_find_below_the_bar_are_planned_for(tmp_path: Path) -> None:
    """Nothing else has changed: no length, no rate, no score of the first gate."""
    world = World(tmp_path, traffic(1, 4 * HOUR_S))
    plan = two_stages(1, 1)
    promised = replace(
        plan,
        objective=Objective("cost", 0.95, 80.0, None),
        predicted=replace(
            plan.predicted, score_mean=80.0, quality=replace(plan.predicted.quality, mean=80.0)
        ),
    )
    write_plan(promised, tmp_path / "old" / "plan.json")
    looks = Evaluations(world)
    controller = world.controller(looks)
    assert world.live(2 * HOUR_S, controller) == []
    looks.worse_s = 2 * HOUR_S
    assert [decision.action for decision in world.live(4 * HOUR_S, controller)][:1] == ["move"]
    alarm = next(entry for entry in controller.state.entries() if entry.kind == "alarm")
    assert alarm.facts["watched"] == "quality"
    assert "80.0 stands for the quality of 80 that was asked" in alarm.what
    assert 2 * HOUR_S < alarm.at_s <= 4 * HOUR_S
    assert world.asked[0].table is not None


class Evaluations:
    """One by the end of each ten seconds from `from_s` on."""

    def __init__(self, world: World, from_s: float = 0.0) -> None:
        self.world = world
        self.from_s = from_s
        self.worse_s = np.inf
        self.asked_at_s: list[float] = []

    def count(self, since_s: float) -> int:
        return max(0, int((self.world.now_s - max(since_s, self.from_s)) / 10.0))

    def write(self, since_s: float, path: Path) -> None:
        path.write_bytes(b"a table")

    def by_gear(self, since_s: float) -> tuple[Ints, Floats]:
        """Every third is in a lighter gear, and as hard as others."""
        at = np.arange(self.count(since_s))
        return (at % 3 == 2).astype(np.int64), 50.0 + at * 7 % 10

    def scores(self, since_s: float) -> tuple[Ints, Floats]:
        """Of the plan's bar and ten points below it from `worse_s` on."""
        begun_s = self.world.now_s - 10.0 * self.count(since_s)
        at_s: Floats = begun_s + 10.0 * np.arange(self.count(since_s))
        large: Floats = np.where(at_s < self.worse_s, 80.0, 70.0)
        return np.zeros(len(at_s), np.int64), np.column_stack([np.full(len(at_s), 40.0), large])

    def ask(self) -> None:
        self.asked_at_s.append(self.world.now_s)


def test_it_is_told_once_a_day_whether_questions_are_as_hard_under_load(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.live(4 * HOUR_S, world.controller(Evaluations(world)))
    (told,) = [entry for entry in read_history(world.settings.folder) if entry.kind == "gears"]
    assert told.what.startswith("load and difficulty look independent: p = ")
    assert told.facts["looks"] >= 100
    assert 0 < told.facts["p"] <= 1


def test_a_change_is_planned_for_again_when_there_are_scores_of_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = growing(world.answer)
    looks = Evaluations(world, CHANGE_S)
    controller = world.controller(looks)
    first, second = world.live(CHANGE_S + HOUR_S, controller)
    assert [request.table and request.table.name for request in world.asked] == [None, "quality.parquet"]
    assert first.action == "move"
    assert second.why.startswith("today's plan is the best found")
    alarm, *_, scores, _ = (
        entry for entry in controller.state.entries() if entry.kind in ("alarm", "decision")
    )
    assert scores.what == "there are scores since the change"
    assert looks.asked_at_s == [alarm.at_s]


def test_a_price_that_is_written_anew_is_planned_for_once(tmp_path: Path) -> None:
    world, plan = World(tmp_path, traffic(1, 8 * HOUR_S)), three_stages()
    write_plan(plan, tmp_path / "old" / "plan.json")
    write_inputs(tmp_path)

    def written(factor: float) -> None:
        pools = [
            {"gpu": p.gpu, "name": p.name, "nodes": p.nodes, "usd_per_gpu_hour": factor * p.usd_per_gpu_hour}
            for p in plan.cluster.pools
        ]
        write_spec(tmp_path, valid_spec() | {"cluster": {"pools": pools}})

    written(1.0)
    controller = world.controller()
    assert world.live(2 * HOUR_S, controller) == []
    written(2.0)
    (decision,) = world.live(3 * HOUR_S, controller)
    assert decision.action == "move"
    (told,) = [entry for entry in controller.state.entries() if entry.facts.get("watched") == "prices"]
    pool = plan.cluster.pools[0]
    assert f"{pool.name} costs {2 * pool.usd_per_gpu_hour:g} $ a GPU-hour instead of" in told.what


def growing(answer: Replanned | PlanningFailed) -> Replanned:
    """Today's plan breaks its bounds, and the candidate keeps them."""
    assert isinstance(answer, Replanned)
    return replace(
        answer, today=replace(answer.today, forecast=replace(answer.today.forecast, misses=Misses(load=0.5)))
    )


def test_gpus_are_not_given_up_on_scores_of_before_the_change(tmp_path: Path) -> None:
    """`new` has one GPU less for the large stage."""
    world = World(tmp_path)
    kept, moved = world.live(CHANGE_S + 2 * HOUR_S, world.controller(Evaluations(world)))
    assert "gives up 1 GPUs of large, and scores of this traffic are not there yet" in kept.why
    assert moved.action == "move"
    assert [request.table is None for request in world.asked] == [True, False]
    assert CHANGE_S + 2000.0 <= world.asked_at_s[1] < CHANGE_S + 2120.0  # 200 looks, one in ten seconds


def test_they_are_given_up_where_scores_do_not_come_in_time(tmp_path: Path) -> None:
    world = World(tmp_path, evaluations_within_s=1000.0)
    kept, moved = world.live(CHANGE_S + 2 * HOUR_S, world.controller(Evaluations(world)))
    assert moved.action == "move"
    assert [request.table for request in world.asked] == [None, None]
    assert kept.again_s <= world.asked_at_s[1] < kept.again_s + 120.0


def test_they_are_given_up_at_once_where_gates_show_the_same_questions(tmp_path: Path) -> None:
    world = World(tmp_path)
    same = {"small": np.full(len(world.samples), 70.0)}
    world.samples = replace(world.samples, scores=same)
    (decision, _) = world.live(CHANGE_S + HOUR_S, world.controller(Evaluations(world)))
    assert decision.action == "move"


def test_a_router_without_second_looks_is_not_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    (decision,) = world.live(CHANGE_S + HOUR_S)
    assert decision.action == "move"


def test_growing_waits_for_no_scores(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = growing(world.answer)
    first, *_ = world.live(CHANGE_S + HOUR_S, world.controller(Evaluations(world)))
    assert first.action == "move"


def test_a_later_change_is_planned_for_with_the_scores_of_the_plan_in_force(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "old" / "quality.parquet").write_bytes(b"of the last plan")
    world.live(CHANGE_S + HOUR_S)
    (request,) = world.asked
    assert request.table is not None
    assert request.table.read_bytes() == b"of the last plan"
    assert request.table.parent == request.out


def test_requests_that_stay_in_lighter_gears_than_foreseen_are_planned_for(tmp_path: Path) -> None:
    """Nothing else has changed: no length, no rate, no score."""
    steady = traffic(1, 12 * HOUR_S)
    world = World(tmp_path, replace(steady, gear=np.where(steady.arrival_s < 5 * HOUR_S, 0, 1)))
    told = GearPrediction(1.0, 1.0, 80.0, quality_lower=79.0, p50_s=1.0, p95_s=2.0, p99_s=3.0, late=0.0)
    heavy = Gear(8.0, None, ("small", "large"), (50.0,), predicted=told)
    light = Gear(None, None, ("small",), (50.0,), predicted=replace(told, time_share=0.0, request_share=0.0))
    promised = replace(two_stages(1, 1), objective=Objective("cost", 0.95, None, 60.0), gears=(heavy, light))
    write_plan(promised, tmp_path / "old" / "plan.json")
    controller = world.controller()
    assert world.live(5 * HOUR_S, controller) == []
    assert [decision.action for decision in world.live(12 * HOUR_S, controller)] == ["move"]
    alarm = next(entry for entry in controller.state.entries() if entry.kind == "alarm")
    assert alarm.facts["watched"] == "gears"
    assert alarm.what.startswith("requests are in lighter gears than planned for")
    assert alarm.at_s < 8 * HOUR_S
