"""Plans with gears: better than any one setting on their own trace, and without them as ever."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cascadia.cli.plan.report import report_data
from cascadia.domain.gear import Shift, ladder_of
from cascadia.domain.objective import Objective, UnderLoad
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner import plan as planning
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.gears.candidates import candidates
from cascadia.planner.gears.ladder import Goals, find_ladder
from cascadia.planner.gears.played import Decided, play
from cascadia.planner.over_time.settings import Stage
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.state import Effort
from cascadia.planner.replay.replay import replay
from cascadia.planner.stability.repeats import repeated
from cascadia_traces.trace import Trace
from tests.unit.planner.problems import FIVE, ON_ROUTER, hosted_judge, problem, rising_table, traffic

pytestmark = pytest.mark.slow

BOUND_S = 6.0
STEEP = 90
"""Slope of a table whose gates are worth their verdicts; else a coin between models, which has no gears, is better."""
LITTLE = Effort(
    routings=3, combinations=100, window_requests=1_000, simulated_requests=0, fewest_simulations=6
)


def plan(known: Problem) -> PlanResult:
    """With a short search, from which gears are found as from any."""
    return planning.plan(known, effort=LITTLE)


def spiky(seconds: int = 120, calm: float = 12.0, spike: float = 60.0) -> Trace:
    """Every minute ten seconds of five times the load."""
    rng = np.random.default_rng(0)
    parts = [at + rng.uniform(0, 1, rng.poisson(spike if at % 60 >= 50 else calm)) for at in range(seconds)]
    arrival_s = np.sort(np.concatenate(parts))
    usual = traffic(len(arrival_s))
    return Trace(arrival_s - arrival_s[0], usual.input_tokens, usual.output_tokens)


def spiky_problem(**changes: object) -> Problem:
    known = problem(
        FIVE[2:5],
        judge=hosted_judge(),
        table=rising_table(3, prompts=400, levels=20, slope=STEEP),
        objective=Objective("quality", 0.95, latency_max_s=BOUND_S),
        trace=spiky(),
    )
    return replace(known, **{"gears": 8, **changes})


@cache
def plan_for_spikes() -> PlanResult:
    """Made once in a process, for other modules too."""
    return plan(spiky_problem())


@pytest.fixture(scope="module")
def geared() -> PlanResult:
    return plan_for_spikes()


@pytest.fixture(scope="module")
def alone() -> Plan:
    return plan(spiky_problem(gears=1)).plan


def test_a_plan_under_a_latency_bound_has_gears_that_are_read_back(geared: PlanResult) -> None:
    gears = geared.plan.gears
    assert 2 <= len(gears) <= 8
    assert ladder_of(gears).borders == geared.ladder.ladder.borders
    assert parse_plan(plan_json(geared.plan), "plan").gears == gears
    told = [gear.predicted for gear in gears]
    assert sum(p.request_share for p in told) == pytest.approx(1)
    assert sum(p.time_share for p in told) == pytest.approx(1)
    bounds = [p.quality_lower for p in told]
    assert bounds == sorted(bounds, reverse=True)
    assert len(set(bounds)) == len(bounds)


def test_each_request_gets_the_gear_that_the_routers_rule_gives_it(geared: PlanResult) -> None:
    """By when clients have their answers in the very run that the plan predicts from."""
    run, ladder = geared.run, geared.ladder
    assert any(replica.shape.timing.client_ps for _, mix in geared.chosen.deployment.mixes for replica in mix)
    ended = np.sort(run.finish_ps)
    under_way = np.arange(len(ended)) - np.searchsorted(ended, run.arrival_ps)
    shift = Shift(ladder.ladder)
    assert ladder.played.gear.tolist() == [
        shift.arrival(int(met), float(now_ps) * 1e-12)
        for met, now_ps in zip(under_way, run.arrival_ps, strict=True)
    ]


@pytest.mark.long
def test_one_gear_is_the_plan_as_it_was() -> None:
    # Where verdicts cost no GPUs, no mixture is better than the best single setting.
    geared = plan(spiky_problem(judge=ON_ROUTER))
    alone = plan(spiky_problem(judge=ON_ROUTER, gears=1)).plan
    assert len(geared.plan.gears) > len(alone.gears) == 1
    assert alone.gears[0].thresholds == alone.thresholds
    told = ("gears", "predicted", "error_range", "question_range", "stability")
    own = {field: getattr(alone, field) for field in told}
    assert replace(geared.plan, **own, wall_s=0.0) == replace(alone, wall_s=0.0)


def test_the_certificate_is_of_the_gears_which_decide_anew_in_each_round(geared: PlanResult) -> None:
    ladder, stability = geared.ladder, geared.plan.stability
    assert stability.objective_once_s == geared.plan.predicted.objective_s
    every = repeated(geared.simulator, stability.repeats)
    each = Decided(geared.search.routings, every)
    run = play(every, geared.chosen.deployment, [each(k) for k in ladder.routings], ladder.ladder).run
    took_s = quantile_s(run.latency_ps / 1e12, 0.95)
    assert stability.objective_repeated_s == stability.p95_repeated_s == took_s <= BOUND_S


@pytest.mark.long
def test_gears_are_no_worse_on_their_trace_than_the_best_setting_alone(
    geared: PlanResult, alone: Plan
) -> None:
    """Of all candidates on the same replicas, each simulated alone."""
    search, deployment, simulator = geared.search, geared.chosen.deployment, geared.simulator
    predicted = geared.plan.predicted
    assert predicted.objective_s <= BOUND_S
    assert predicted.quality.lower > alone.predicted.quality.lower
    among = candidates(search, deployment, 0.0, 0.5)
    assert len(among) > 5
    for routing in among.routings.tolist():
        run = simulator.run(deployment, search.decisions(routing))
        if np.mean(run.latency_ps / 1e12 > BOUND_S) <= 0.05:
            assert search.routings.lower[routing] <= predicted.quality.lower + 1e-9


def test_in_time_at_each_level_is_less_late_and_no_better(geared: PlanResult) -> None:
    """CascadeServe's rule, on the replicas of the plan."""
    search, own_s = geared.search, geared.run.latency_ps / 1e12
    goals = replace(Goals.of(search.problem, BOUND_S), rule="each-level")
    found = find_ladder(search, geared.simulator, geared.chosen.deployment, own_s, goals)
    assert found is not None
    assert found.late <= goals.late
    assert found.quality_lower <= geared.ladder.quality_lower
    lower = search.routings.lower[list(found.routings)]
    assert (np.diff(lower) < 0).all()


def test_the_mixture_is_bounded_by_its_gears(geared: PlanResult) -> None:
    quality = geared.plan.predicted.quality
    told = [gear.predicted for gear in geared.plan.gears]
    assert quality.lower == pytest.approx(sum(p.request_share * p.quality_lower for p in told))
    assert quality.mean == pytest.approx(sum(p.request_share * p.quality_mean for p in told))
    assert "if load and difficulty are independent" in quality.method


def test_replayed_on_its_own_trace_a_ladder_gives_what_the_plan_predicts(
    geared: PlanResult, tmp_path: Path
) -> None:
    found, known = geared.plan, geared.search.problem
    shown = replay(parse_plan(plan_json(found), "plan"), spiky(), folder=tmp_path, table=known.quality)
    # Quality is the mean of the rows that came; the plan's is that of the whole table.
    assert replace(shown.predicted, quality=found.predicted.quality) == found.predicted
    assert shown.predicted.quality.mean == pytest.approx(found.predicted.quality.mean, abs=2.0)
    assert shown.gear is not None
    assert shown.gear.tolist() == geared.ladder.played.gear.tolist()
    for g, gear in enumerate(found.gears):
        assert np.mean(shown.gear == g) == gear.predicted.request_share
        late = (shown.run.latency_ps / 1e12 > BOUND_S)[shown.gear == g]
        assert (late.mean() if len(late) else 0.0) == gear.predicted.late


@pytest.mark.long
def test_the_report_gets_the_trace_on_gears_and_on_the_single_setting(geared: PlanResult) -> None:
    told = report_data(geared, spec_name="", command="", date="").swing
    predicted, here = geared.plan.predicted, geared.ladder.played.gear
    assert told is not None
    assert told.on_gears.quality_lower == predicted.quality.lower
    assert told.on_gears.late_share == geared.ladder.late
    assert told.alone.quality_lower < told.on_gears.quality_lower
    own = geared.simulator.run(
        geared.chosen.deployment, geared.search.decisions(geared.chosen.deployment.routing)
    )
    assert told.alone.late_share == np.mean(own.latency_ps / 1e12 > BOUND_S)
    assert told.rate_rps.mean() == pytest.approx(len(here) / (geared.run.arrival_ps[-1] / 1e12), rel=1e-6)
    # Ten seconds of each minute are five times as busy: heavy gears are for the others.
    busy = told.rate_rps > 40
    assert np.nanmean(told.gear[busy]) > np.nanmean(told.gear[~busy])
    assert told.on_gears.in_flight[busy].mean() > 2 * told.on_gears.in_flight[~busy].mean()


def test_more_load_is_served_in_lighter_gears(geared: PlanResult, tmp_path: Path) -> None:
    calm, busy = (
        replay(geared.plan, trace, folder=tmp_path, table=geared.search.problem.quality)
        for trace in (spiky(), spiky(calm=24.0, spike=90.0))
    )
    assert calm.gear is not None
    assert busy.gear is not None
    assert np.mean(busy.gear) > np.mean(calm.gear) > 0
    assert busy.predicted.quality.mean < calm.predicted.quality.mean
    told = busy.gear.tolist()
    assert busy.switches == sum(one != other for one, other in pairwise(told)) > 0


def test_without_a_table_no_gear_is_played_and_a_note_says_so(geared: PlanResult, tmp_path: Path) -> None:
    shown = replay(geared.plan, spiky(), folder=tmp_path)
    assert shown.gear is None
    assert any("gears are not played" in note for note in shown.notes)
    alone = replay(replace(geared.plan, gears=geared.plan.gears[:1]), spiky(), folder=tmp_path)
    assert not any("gears are not played" in note for note in alone.notes), "one setting is all there is"


@pytest.mark.long
def test_no_gear_goes_below_the_floor(geared: PlanResult) -> None:
    lower = geared.plan.gears[-1].predicted.quality_lower
    floor = lower + 1.0
    found = plan(spiky_problem(under_load=UnderLoad(floor))).plan
    assert all(gear.predicted is None or gear.predicted.quality_lower >= floor for gear in found.gears)


@pytest.mark.long
def test_a_trace_too_short_to_know_its_load_has_no_gears_and_a_note_says_so() -> None:
    short = problem(
        FIVE[2:5],
        judge=hosted_judge(),
        objective=Objective("quality", 0.95, latency_max_s=BOUND_S),
        trace=spiky(seconds=20),
    )
    result = plan(replace(short, gears=8))
    assert len(result.plan.gears) == 1
    assert any("too short" in note for note in result.notes)


@pytest.mark.long
def test_the_fastest_plan_gets_lighter_gears_for_more_than_its_trace_only() -> None:
    """Its own setting serves all that the trace has."""
    known = spiky_problem(objective=Objective("latency", 0.95, 60.0), under_load=UnderLoad(50.0))
    single, found = plan(replace(known, gears=1)).plan, plan(known).plan
    assert found.predicted.objective_s <= single.predicted.objective_s
    assert found.predicted.quality.lower >= 60.0
    assert found.gears[0].thresholds == single.thresholds


@pytest.mark.long
def test_a_trace_that_is_played_several_times_over_has_gears_too(geared: PlanResult) -> None:
    """As one is that is short beside its latencies (`certificate.py`)."""
    simulator = repeated(geared.simulator, 2)
    goals = Goals.of(geared.search.problem, BOUND_S)
    deployment = geared.chosen.deployment
    known = Decided(geared.search.routings, simulator)
    own_s = simulator.latency_s(simulator.run(deployment, known(deployment.routing)))
    found = find_ladder(geared.search, simulator, deployment, own_s, goals)
    assert found is not None
    assert len(found.played.gear) == 2 * len(geared.search.problem.workload)
    stage = Stage(geared.search, simulator, BOUND_S)
    assert stage.outcome("twice", deployment, found.routings, found.played.gear).late == found.late
