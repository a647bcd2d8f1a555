"""The fleet of the simulated days does what a real one does: loads, drains, holds GPUs until it has stopped."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.controller.move.backend import StepFailed, move
from cascadia.controller.move.state import Kind, Routing, reached
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop
from cascadia.dispatch.turns import takes_other
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.plan import JudgePlan, Mixture, ReplicaGroup
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.reproduce.adapt.days import Day, Regime, made_table
from cascadia.reproduce.adapt.fleet import LOG_S, SimulatedFleet
from cascadia.reproduce.adapt.ways import Evaluations, hours_of
from cascadia.testing.plans import plan, stage
from cascadia_traces.trace import Trace

GPUS = 5
MODELS = ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct")
ONE = ReplicaGroup("h100-sxm", 1, 1, 1, 1.0)
JUDGE = JudgePlan(
    "llm", "self-hosted", MODELS[1], engine="vllm", quantization=None, max_model_len=4096, replicas=(ONE,)
)
LOAD_S = 50.0


def day(seconds: float = 600.0, rate_rps: float = 2.0) -> Day:
    """A request every half second."""
    n = int(seconds * rate_rps)
    trace = Trace(np.arange(n) / rate_rps, np.full(n, 200), np.full(n, 100))
    return Day(
        "even",
        trace,
        107 * np.arange(n) % 20_000,
        table=made_table(),
        regimes=(Regime(0.0, "all"),),
        quality_min=50.0,
        slo_s=60.0,
    )


def written(folder: Path, counts: Sequence[int]) -> Path:
    """A plan with so many replicas of each stage, and a judge, of one GPU each."""
    cluster = Cluster((Pool("h100-sxm", "h100-sxm", 1, GPUS, 3.0),))
    stages = [
        stage(name, *([replace(ONE, count=count)] if count else []), model=model)
        for name, model, count in zip(("small", "medium", "large"), MODELS, counts, strict=True)
    ]
    folder.mkdir(exist_ok=True)
    write_plan(plan(stages, cluster, JUDGE), folder / "plan.json")
    return folder / "plan.json"


@pytest.fixture
def fleet(tmp_path: Path) -> SimulatedFleet:
    return SimulatedFleet(day(), written(tmp_path / "first", (1, 0, 1)), GPUS, lambda _bytes: LOAD_S)


def geared(folder: Path, border: float) -> Path:
    """Two replicas of `small`, which alone is asked where more than `border` are under way; one of `large` else."""
    path = written(folder, (2, 0, 1))
    every = Gear(border, None, ("small", "large"), (101.0, 101.0))
    light = Gear(None, None, ("small",), (101.0, 101.0))
    write_plan(replace(read_plan(path), gears=(every, light)), path)
    return path


@pytest.mark.parametrize(("judge", "other"), [(False, 101.0), (True, 60.0)])
def test_a_mixture_is_played_by_both_of_its_routings(tmp_path: Path, judge: bool, other: float) -> None:
    """By its own thresholds alone the small model answered all, or the judge that a coin has not was missed."""
    path = written(tmp_path, (2, 0, 1))
    made = read_plan(path)
    made = replace(made, judge=made.judge if judge else replace(made.judge, replicas=()))
    skips = (101.0 if other > 100 else 0.0, 101.0)
    mixture = Mixture(0.25, (other, 101.0), skips)
    write_plan(replace(made, thresholds=(0.0, 101.0), skip_below=(0.0, 101.0), mixture=mixture), path)
    fleet = SimulatedFleet(day(), path, GPUS)
    fleet.run_until(500.0)
    by, n = fleet.cascade.answers(0, 800).by, np.arange(800)
    score = fleet.day.table.score[0, fleet.day.row[:800]]
    assert (by == np.where(takes_other(n, 0.25) & (score < other), 2, 0)).all()
    scored = fleet.log().scores
    assert set(scored) == ({"small"} if judge else set())


def take(fleet: SimulatedFleet, *steps: Step) -> None:
    async def main() -> None:
        for step in steps:
            await fleet.take(step)

    asyncio.run(main())


SMALL = Kind("small", "h100-sxm", 1, "TP1 PP1")


def test_a_replica_is_ready_when_it_has_loaded_and_the_day_goes_on_meanwhile(fleet: SimulatedFleet) -> None:
    fleet.run_until(100.0)
    take(fleet, Start("new", SMALL))
    assert fleet.now_s == 100.0
    assert fleet.used == 4
    take(fleet, AwaitReady("new"))
    assert fleet.now_s == 100.0 + LOAD_S
    answers = fleet.cascade.answers(0, 250)
    assert (answers.finish_ps[:200] > 0).all()


def test_a_replica_holds_its_gpus_until_it_has_answered_all(fleet: SimulatedFleet) -> None:
    fleet.run_until(100.0)
    take(fleet, Start("new", SMALL), AwaitReady("new"))
    (old,) = (
        name for name, running in fleet._running.items() if name != "new" and running.replica.kind == SMALL
    )
    take(fleet, Drain(old))
    assert fleet.used == 4
    begun = fleet.day.part(0.0, fleet.now_s).stop
    take(fleet, Stop(old))
    assert fleet.used == 3
    assert (fleet.cascade.answers(0, begun - 2).finish_ps > 0).all()


def test_gpus_that_are_not_there_are_refused(fleet: SimulatedFleet) -> None:
    take(fleet, Start("a", SMALL), Start("b", SMALL))
    with pytest.raises(StepFailed, match="5 of 5 GPUs are taken"):
        take(fleet, Start("c", SMALL))


def test_the_bill_is_of_the_gpus_that_were_held(fleet: SimulatedFleet) -> None:
    fleet.run_until(100.0)
    take(fleet, Start("new", SMALL), AwaitReady("new"))
    fleet.settle()
    assert fleet.gpu_s == 3 * (100.0 + LOAD_S) + LOAD_S


def test_a_controllers_move_ends_in_what_was_wanted(tmp_path: Path, fleet: SimulatedFleet) -> None:
    desired = fleet.desired(written(tmp_path / "second", (2, 1, 1)), {})

    async def main() -> bool:
        await move(fleet, desired, need_rps={}, at_once=1)
        return reached(await fleet.observe(), desired)

    fleet.run_until(60.0)
    assert asyncio.run(main())
    assert fleet.now_s >= 60.0 + 2 * LOAD_S


def test_the_log_tells_who_came_at_once_and_of_answers_when_their_file_has_ended(
    fleet: SimulatedFleet,
) -> None:
    fleet.run_until(100.0)
    log = fleet.log()
    ended_s = 100.0 // LOG_S * LOG_S
    assert log.came_s is not None
    assert log.came_s[-1] == ended_s - 0.5
    assert log.e2e_s is not None
    assert 0 < len(log) < len(log.came_s)
    assert (log.arrival_s + log.e2e_s <= ended_s).all()
    assert set(log.scores) == {"small"}


def test_its_load_is_told_of_the_judge_and_of_whom_it_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a router's metrics tell it."""
    monkeypatch.setattr("cascadia.reproduce.adapt.fleet.PATIENCE_S", 0.5)
    world = SimulatedFleet(day(200.0, 200.0), written(tmp_path / "first", (1, 0, 1)), GPUS)
    world.run_until(150.0)
    before = asyncio.run(world.load())
    assert set(before.in_hand) == {"small", "medium", "large", "judge"}
    assert min(before.in_hand["small"], before.in_hand["judge"]) > 0.0
    world.run_until(3000.0)
    after = asyncio.run(world.load())
    assert 0.0 < before.turned_away["large"] < after.turned_away["large"]
    assert list(after.turned_away.values()) == world.cascade.turned_away(), "also those of long ago"


def test_a_log_that_was_not_looked_at_for_long_is_kept_for_as_long(fleet: SimulatedFleet) -> None:
    fleet.run_until(60.0)
    fleet.log(kept_s=30.0)
    fleet.run_until(300.0)
    assert fleet.log(kept_s=30.0).arrivals_s[0] == 30.0
    assert fleet.log(kept_s=30.0).arrivals_s[0] == 270.0


def test_who_meets_much_under_way_gets_the_light_gear_of_the_plan(tmp_path: Path) -> None:
    fleet = SimulatedFleet(day(), geared(tmp_path, 1.0), GPUS)
    fleet.run_until(200.0)
    gears, answers = fleet.cascade.gears[:300], fleet.cascade.answers(0, 300)
    assert set(gears.tolist()) == {0, 1}
    assert set(answers.by[gears == 0].tolist()) == {2}
    assert set(answers.by[gears == 1].tolist()) == {0}
    log = fleet.log()
    scored = np.isfinite(log.scores["small"])
    first = int(log.arrival_s[0] * 2.0)
    assert (scored == (fleet.cascade.gears[first : first + len(log)] == 0)[: len(scored)]).mean() > 0.95


def test_another_ladder_is_another_routing_though_thresholds_are_the_same(tmp_path: Path) -> None:
    fleet = SimulatedFleet(day(), geared(tmp_path / "first", 3.0), GPUS)
    desired = [
        fleet.desired(geared(tmp_path / name, border), {}) for name, border in (("a", 3.0), ("b", 4.0))
    ]
    same, other = (asyncio.run(fleet.observe()).routing == each.routing for each in desired)
    assert (same, other) == (True, False)


def test_borders_follow_the_replicas_that_serve(tmp_path: Path) -> None:
    fleet = SimulatedFleet(day(), geared(tmp_path, 8.0), GPUS, lambda _bytes: LOAD_S)

    def capacity() -> float:
        return float(fleet.cascade._paths.rule[2])

    assert capacity() == 1.0
    first, *_ = (name for name, running in fleet._running.items() if running.replica.kind == SMALL)
    take(fleet, Drain(first))
    assert capacity() == 0.5
    take(fleet, Start("new", SMALL))
    assert capacity() == 0.5
    take(fleet, AwaitReady("new"))
    assert capacity() == 1.0


def test_an_oracles_hours_end_where_another_regime_begins() -> None:
    two = replace(day(7200.0), regimes=(Regime(0.0, "even"), Regime(5400.0, "other")))
    assert hours_of(two) == [(0.0, 3600.0), (3600.0, 5400.0), (5400.0, two.duration_s)]


def test_a_new_threshold_is_for_those_who_come_from_then_on(fleet: SimulatedFleet) -> None:
    fleet.run_until(100.0)
    before = fleet.day.part(0.0, 100.0).stop
    take(fleet, Route(Routing(("large",))))
    fleet.run_until(300.0)
    answers = fleet.cascade.answers(0, before + 200)
    assert 0 in answers.by[:before]
    assert set(answers.by[before : before + 200].tolist()) == {2}


def test_after_an_alarm_half_of_the_requests_are_looked_at_again(fleet: SimulatedFleet) -> None:
    looks = Evaluations(fleet.day, fleet)
    fleet.run_until(100.0)
    assert looks.count(0.0) == 10
    looks.ask()
    fleet.run_until(200.0)
    assert looks.count(100.0) == 100
    assert looks.count(0.0) == 110
