"""A plan says what other questions like its table's do to its latency, which no other figure of it tells."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.external import External
from cascadia.domain.gear import Ladder
from cascadia.domain.objective import Level, Objective
from cascadia.domain.plan import Plan, QuestionRange
from cascadia.domain.quality import QualityTable
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.account.question_range import Play, played_by, question_notes, question_range
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.played import Played
from cascadia.planner.plan import PlanResult
from cascadia.planner.problem.join import join
from cascadia.planner.stability.other_questions import visits_of
from cascadia.report.words import question_range as told_in_words
from tests.unit.planner.problems import LARGE, SMALL, briefly, problem, traffic

pytestmark = pytest.mark.slow

FRESH = 20
TRAFFIC = traffic(4000, 60.0)


def a_table(prompts: int, seed: int = 0) -> QualityTable:
    """A large model that is as good on hard questions as a small one on easy ones, and a judge that sees it."""
    rng = np.random.default_rng(seed)
    hard = rng.random(prompts) < 0.2
    quality = np.stack([np.where(hard, 20.0, 90.0), np.full(prompts, 90.0)]) + rng.integers(
        0, 3, (2, prompts)
    )
    length = np.full((2, prompts), 120.0)
    ids = tuple(map(str, range(prompts)))
    return QualityTable(
        ids, ("s0", "s1"), quality, quality=quality, input_tokens=length, output_tokens=length
    )


@pytest.fixture(scope="module")
def found() -> PlanResult:
    return briefly(problem(table=a_table(200), trace=TRAFFIC, quality_min=83.0))


def alone(result: PlanResult) -> Play:
    """By the plan's own routing."""
    deployment = result.chosen.deployment
    return played_by(deployment, result.search.routings, [deployment.routing], Ladder(()))


def again(result: PlanResult, simulator: Simulator, carries: float = 10.0) -> QuestionRange | None:
    routings, deployment = result.search.routings, result.chosen.deployment
    return question_range(
        simulator,
        deployment,
        alone(result),
        result.plan.predicted,
        visits_of(simulator.problem, routings, [(1.0, deployment.routing)]),
        carries=carries,
    )


@pytest.mark.long
def test_a_plan_is_read_back_with_it_and_it_is_said_in_words(found: PlanResult) -> None:
    within, expected = found.plan.question_range, found.plan.predicted.objective_s
    assert within is not None
    assert within.low_s <= expected <= within.high_s
    assert within.low_s < within.high_s
    assert within.confidence == found.search.problem.confidence
    assert parse_plan(plan_json(found.plan), "plan.json") == found.plan
    assert "other questions like the table's 200, 95 % confidence" in told_in_words(found.plan)


@pytest.mark.long
def test_most_tables_of_new_questions_fall_within_it(found: PlanResult) -> None:
    """200 questions tell the share that goes on to the large model to a few points only."""
    within, given = found.plan.question_range, found.search.problem
    assert within is not None
    p95_s = []
    for seed in range(1, FRESH + 1):
        table = a_table(200, seed)
        fresh = Simulator.of(replace(given, quality=table))
        run = alone(found)(fresh).run
        p95_s.append(quantile_s(fresh.latency_s(run), 0.95))
    inside = [within.low_s <= each <= within.high_s for each in p95_s]
    assert max(p95_s) > 1.02 * min(p95_s)
    assert np.mean(inside) >= 0.8


def test_more_questions_tell_it_better(found: PlanResult) -> None:
    """The same questions, each asked twenty times over in the table: the routing and the shares are the same."""
    few, t = found.plan.question_range, found.search.problem.quality
    ids = tuple(f"{copy}-{each}" for copy in range(20) for each in t.prompt_ids)
    columns = ("score", "quality", "input_tokens", "output_tokens")
    many = QualityTable(ids, t.stages, **{name: np.tile(getattr(t, name), 20) for name in columns})
    asked = replace(found.search.problem, quality=many, workload=join(TRAFFIC, many, seed=0).workload)
    narrow = again(found, Simulator.of(asked))
    assert few is not None
    assert narrow is not None
    assert narrow.high_s - narrow.low_s < 0.7 * (few.high_s - few.low_s)


def test_one_model_for_all_has_none() -> None:
    alone = briefly(problem(quality_min=0.0, objective=Objective("latency", 0.95, 0.0)))
    assert sum(stage.deployed for stage in alone.plan.stages) == 1
    assert alone.plan.question_range is None


def test_a_question_takes_its_lengths_along_where_they_are_the_tables() -> None:
    """Here questions that need the large model are ten times as long: their number counts for more so."""
    table = a_table(200)
    hard = table.quality[0] < 50.0
    long = replace(table, output_tokens=np.where(hard, 900.0, 90.0) * np.ones_like(table.output_tokens))
    trace = traffic(1500, 20.0)
    planned = briefly(problem(table=long, trace=trace, quality_min=83.0))
    told = join(trace, long, seed=0, lengths="table").workload
    given = replace(planned.search.problem, workload=told)
    asked: list[tuple[int, ...]] = []

    def looked_at(other: Simulator) -> Played:
        w = other.problem.workload
        asked.append(tuple(w.output_tokens[0][:50].tolist()))
        assert np.array_equal(w.output_tokens[0], np.where(hard[w.row], 900, 90))
        return alone(planned)(other)

    routings, deployment = planned.search.routings, planned.chosen.deployment
    visits = visits_of(given, routings, [(1.0, deployment.routing)])
    range_ = question_range(
        Simulator.of(given), deployment, looked_at, planned.plan.predicted, visits, carries=10.0
    )
    assert range_ is not None
    assert len(set(asked)) > 1


@pytest.mark.long
def test_another_question_has_a_prefix_within_its_prompt_and_an_apis_time_for_its_answer() -> None:
    """Short questions are asked in place of long ones, whose prompts shared more with others than they have."""
    rng, hard = np.random.default_rng(0), np.arange(200) % 4 == 0
    read = np.where(hard, 900.0, 40.0) * np.ones((2, 200))
    score = np.stack([np.where(hard, 20.0, 90.0), np.full(200, 90.0)])
    wrote = np.where(hard, 600.0, 30.0) * np.ones((2, 200))
    ids = tuple(map(str, range(200)))
    table = QualityTable(ids, ("s0", "s1"), score, quality=score, input_tokens=read, output_tokens=wrote)
    asked = rng.integers(200, size=400)
    trace = replace(
        traffic(400, 20.0),
        prompt_id=tuple(ids[row] for row in asked),
        prefix_tokens=np.where(hard[asked], 800, 20),
        input_tokens=np.where(hard[asked], 900, 40),
    )
    given = problem((SMALL, LARGE), table=table, trace=trace, quality_min=83.0)
    cached = replace(given.stages[0].config, prefix_cache_hit_rate=1.0)
    api = External(10.0, 10.0, ttft_p50_s=0.1, ttft_p95_s=0.1, tpot_p50_s=0.01, tpot_p95_s=0.01)
    found = briefly(given)
    stages = (replace(given.stages[0], config=cached), replace(given.stages[1], external=api))
    here, own = Simulator.of(replace(given, stages=stages)), list[int]()

    def looked_at(other: Simulator) -> Played:
        w, elsewhere = other.problem.workload, other.apis[1]
        assert (other.cached < w.input_tokens).all()
        assert elsewhere is not None
        assert elsewhere.whole_ps == pytest.approx((0.1 + 0.01 * (w.output_tokens[1] - 1)) * 1e12)
        own.append(int(w.output_tokens[1].sum()))
        return alone(found)(Simulator.of(replace(other.problem, stages=given.stages)))

    routings, deployment = found.search.routings, found.chosen.deployment
    both = int(np.flatnonzero(routings.deployed.all(axis=1))[0])
    visits = visits_of(given, routings, [(1.0, both)])
    assert question_range(here, deployment, looked_at, found.plan.predicted, visits, carries=10.0) is not None
    assert len(set(own)) > 1


def test_who_has_no_capacity_for_more_is_asked_whether_it_holds(found: PlanResult) -> None:
    """Replicas that are full to the brim hold with the table's questions, and not where more of them go on."""
    simulator = found.simulator
    assert again(found, simulator, carries=10.0) == again(found, simulator, carries=0.0)
    arrivals = simulator.problem.workload.arrival_s / (1.02 * (found.plan.headroom or 1.0))
    workload = replace(simulator.problem.workload, arrival_s=arrivals)
    full = again(found, Simulator.of(replace(simulator.problem, workload=workload)), carries=0.0)
    assert full is not None
    assert not full.high_holds
    assert any("waiting grows without end" in note for note in question_notes(with_range(found.plan, full)))


def with_range(plan: Plan, range_: QuestionRange) -> Plan:
    return replace(plan, question_range=range_)


def test_a_bound_that_other_questions_break_is_a_note(found: PlanResult) -> None:
    expected = found.plan.predicted.objective_s
    objective = replace(found.plan.objective, levels=(Level("e2e", 0.95, 1.1 * expected),))
    plan = replace(found.plan, objective=objective)
    kept = QuestionRange(0.9 * expected, 1.1 * expected, 0.95)
    assert not list(question_notes(with_range(plan, kept)))
    broken = replace(kept, high_s=1.21 * expected)
    (note,) = question_notes(with_range(plan, broken))
    assert "with others of their kind it is" in note
    assert f"a bound of {expected:.2g} s leaves room" in note or f"{expected / 1.1:.2g} s" in note
    assert not list(question_notes(replace(plan, question_range=None)))
