"""A plan at least cost says with how many replicas it keeps its bounds at other rates, and what a burst may be."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.gear import Ladder
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan, ReplicaGroup, Scale, Scaling
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.account.scaling import LEAST, LOCAL_S, MOST, ROOM, peaks_of, scaling
from cascadia.planner.plan import PlanResult
from cascadia.planner.replay.replay import replay
from cascadia.report.words import at_other_rates
from tests.unit.planner.account.test_question_range import a_table
from tests.unit.planner.problems import NODE, SMALL, briefly, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow

BOUND_S = 6.0
TRAFFIC = traffic(6000, 150.0)
AT_LEAST_COST = Objective("cost", 0.95, 83.0, latency_max_s=BOUND_S)


@cache
def found() -> PlanResult:
    asked = problem(
        pools=(replace(NODE, nodes=4),),
        judge=hosted_judge(),
        objective=AT_LEAST_COST,
        trace=TRAFFIC,
        table=a_table(400),
    )
    return briefly(asked)


def scaled(plan: Plan, scale: Scale) -> Plan:
    """The plan on so many replicas, each with the share that one of its group had."""

    def groups(name: str, own: tuple[ReplicaGroup, ...]) -> tuple[ReplicaGroup, ...]:
        if name not in scale.replicas:
            return own
        pairs = list(zip(own, scale.replicas[name], strict=True))
        work = sum(group.share / group.count * n for group, n in pairs)
        return tuple(replace(g, count=n, share=g.share / g.count * n / work) for g, n in pairs if n)

    stages = tuple(replace(stage, replicas=groups(stage.name, stage.replicas)) for stage in plan.stages)
    return replace(
        plan, stages=stages, judge=replace(plan.judge, replicas=groups("judge", plan.judge.replicas))
    )


def scaling_of(result: PlanResult, room: float) -> Scaling:
    assert result.ladder is None
    deployment = result.chosen.deployment
    told = scaling(
        result.simulator,
        deployment,
        result.search.routings,
        (deployment.routing,),
        Ladder(()),
        predicted=result.plan.predicted,
        room=room,
    )
    assert told is not None
    return told


def scales() -> tuple[Scale, ...]:
    told = found().plan.scaling
    assert told is not None
    return told.scales


@pytest.mark.long
def test_at_its_own_rate_a_plan_has_its_own_replicas_where_they_leave_room() -> None:
    result = found()
    without = scaling_of(result, room=0.0)
    (own,) = [scale for scale in without.scales if scale.times == 1.0]
    assert scaled(result.plan, own) == result.plan
    (roomy,) = [scale for scale in scales() if scale.times == 1.0]
    assert scaled(result.plan, roomy).gpus >= result.plan.gpus


@pytest.mark.long
def test_rates_from_a_fraction_to_more_than_twice_the_plans_are_told() -> None:
    times = [scale.times for scale in scales()]
    assert times == sorted(times)
    assert times[0] < 1.2 * LEAST
    assert times[-1] > MOST / 1.2


@pytest.mark.long
def test_more_requests_never_take_fewer_gpus() -> None:
    gpus = [scaled(found().plan, scale).gpus for scale in scales()]
    assert gpus == sorted(gpus)
    assert gpus[0] < found().plan.gpus < gpus[-1], "the example has to grow and to shrink"


@pytest.mark.long
def test_the_bounds_are_kept_at_each_rate_by_what_is_told_for_it(tmp_path: Path) -> None:
    plan, table = found().plan, found().search.problem.quality
    for scale in scales()[::3]:
        faster = replace(TRAFFIC, arrival_s=TRAFFIC.arrival_s / scale.times)
        played = replay(scaled(plan, scale), faster, folder=tmp_path, table=table)
        assert played.predicted.rate_rps == pytest.approx(scale.times * plan.predicted.rate_rps, rel=1e-3)
        # On another number of replicas ties fall otherwise.
        assert played.predicted.objective_s <= (1.0 - ROOM) * BOUND_S * 1.005, scale


@pytest.mark.long
def test_the_summary_says_what_half_and_twice_the_rate_take() -> None:
    plan = found().plan
    half, twice = (
        next(scaled(plan, scale).gpus for scale in scales() if scale.times >= times) for times in (0.5, 2.0)
    )
    told = at_other_rates(plan)
    assert told.startswith(f"GPUs within the bounds: {half} at half the rate, ")
    assert told.endswith(f", {twice} at twice")
    assert at_other_rates(replace(plan, scaling=None)) == ""


@pytest.mark.long
def test_a_plan_that_is_written_and_read_back_tells_them_too() -> None:
    assert parse_plan(plan_json(found().plan), "plan").scaling == found().plan.scaling


@pytest.mark.long
def test_other_goals_and_plans_without_a_bound_tell_none() -> None:
    fastest = briefly(problem(objective=Objective("latency", 0.95, 52.0)))
    unbounded = briefly(problem(objective=Objective("cost", 0.95, 52.0)))
    quickest = briefly(problem((SMALL,), objective=Objective("rate", 0.95, 20.0, latency_max_s=BOUND_S)))
    assert quickest.plan.scaling is None
    assert fastest.plan.scaling is None
    assert unbounded.plan.scaling is None


def test_a_burst_counts_against_the_quarter_of_an_hour_around_it() -> None:
    steady = np.arange(0.0, 3600.0, 0.1)
    burst = np.sort(np.append(steady, np.arange(1800.0, 1860.0, 0.1)))
    day = np.sort(np.append(burst, np.arange(2700.0, 3600.0, 0.1)))
    flat, short, hour = (
        {peak.span_s: peak.times for peak in peaks_of(at_s)} for at_s in (steady, burst, day)
    )
    assert flat == pytest.approx(dict.fromkeys(flat, 1.0), abs=0.01)
    assert short[60.0] == pytest.approx(2.0 / (1.0 + 60.0 / LOCAL_S), abs=0.05)
    assert short[300.0] == pytest.approx(1.2 / (1.0 + 60.0 / LOCAL_S), abs=0.05)
    assert hour[300.0] < 1.35, "what stays for a quarter of an hour is no burst"
    assert [peaks[LOCAL_S] for peaks in (flat, short, hour)] == [1.0, 1.0, 1.0]


def test_a_trace_of_three_minutes_tells_of_bursts_within_them() -> None:
    told = {peak.span_s: peak.times for peak in peaks_of(np.arange(0.0, 180.0, 0.5))}
    assert list(told) == [30.0, 60.0, 120.0, LOCAL_S]
