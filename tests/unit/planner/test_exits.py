"""Plans with exits: never worse than without, read back as they were written, and simulated as their twins have it."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from cascadia.domain.objective import Objective
from cascadia.domain.plan import ExitPlan, ExitPromise
from cascadia.domain.points import Points
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import plan_json, read_plan, write_plan
from cascadia.planner.account.exits import folded_as_planned
from cascadia.planner.account.until_certified import first_state_note, on_same_replicas, until_certified
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import NO_CLIMB, PlanResult, plan
from cascadia.planner.problem.points import read_as_planned
from cascadia.planner.problem.quality_file import write_quality
from cascadia.planner.refinement.refine import effort_for
from cascadia.planner.refinement.state import Refinement
from cascadia.planner.replay.replay import replay
from cascadia.planner.routing.points import Setting, folded
from cascadia.planner.routing.routings import ACCEPTS_NONE
from cascadia.planner.search.exit_settings import under
from cascadia.planner.search.reference_tables import References
from cascadia.planner.tables.loads import arrival_ps, at_gates, judge_load, verdict_reads, verdicts_each
from cascadia.report.text import plan_summary
from cascadia_sim.cascade.cascade import CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine.replica import simulate_replica
from tests.examples import examples
from tests.unit.controller.machine import two_stages
from tests.unit.planner.pointed import points, with_exits
from tests.unit.planner.problems import hosted_judge, traffic
from tests.unit.sim.exiting_twin import ExitingTwin, Thinker
from tests.unit.sim.machines import machine
from tests.unit.sim.twin import Sequence

MEDIAN = Objective("latency", 0.5, 76.0)


class Both(NamedTuple):
    problem: Problem
    without: PlanResult
    exiting: PlanResult


@pytest.fixture(scope="module")
def both() -> Both:
    """Plans of one problem, without a climb from deployment to deployment."""
    problem = with_exits(MEDIAN, requests=50)
    effort = replace(effort_for(problem.cluster), **NO_CLIMB)
    return Both(problem, plan(replace(problem, points=None), effort=effort), plan(problem, effort=effort))


@pytest.mark.slow
def test_exits_make_a_plan_better_and_keep_its_bar(both: Both) -> None:
    """That no plan is worse for them: `tests/benchmarks/bench_exit_plans.py`, on many problems."""
    a, b = both.without.plan.predicted, both.exiting.plan.predicted
    assert b.objective_s < 0.9 * a.objective_s
    assert b.quality.lower >= 76.0


@pytest.mark.slow
def test_a_plan_with_exits_is_read_back_and_replayed(both: Both, tmp_path: Path) -> None:
    problem, _, result = both
    assert problem.points is not None
    used = result.plan.stages[0].exits
    assert used, "there is nothing to test without"
    write_plan(result.plan, tmp_path / "plan.json")
    write_quality(problem.points.table, tmp_path / "table.csv")
    assert plan_json(read_plan(tmp_path / "plan.json")) == plan_json(result.plan)
    ids = tuple(problem.quality.prompt_ids[row] for row in problem.workload.row)
    trace = replace(traffic(50, 12.0), prompt_id=ids)
    table = read_as_planned(result.plan, tmp_path / "table.csv", None)
    again = replay(result.plan, trace, folder=tmp_path, table=table).predicted
    # The plan's own figures are of several rounds of so short a trace.
    assert again.objective_s == pytest.approx(result.plan.predicted.objective_s, rel=0.1)
    answered_by = result.run.answered_by[:50]
    assert again.quality.mean == pytest.approx(table.quality[answered_by, problem.workload.row].mean())
    assert sum(each.left for each in used) <= again.stages[0].accepted + 1e-9
    console = Console(width=200, record=True, file=StringIO())
    console.print(plan_summary(result.plan))
    assert f"at {used[0].thinking_tokens:,} thinking tokens" in console.export_text()


@pytest.mark.long
@pytest.mark.slow
def test_where_all_leave_at_the_last_exit_and_nobody_is_judged_paths_are_drawn_without_a_judge(
    tmp_path: Path,
) -> None:
    problem = replace(with_exits(Objective("latency", 0.5, 20.0), requests=50), judge=hosted_judge())
    made = plan(problem, effort=replace(effort_for(problem.cluster), **NO_CLIMB)).plan
    assert [each.last for each in made.stages[0].exits] == [True]
    assert made.judge.gpus == 0
    shown = replay(made, traffic(50, 12.0), folder=tmp_path).predicted
    assert shown.judge is None
    assert shown.stages[0].reached == 1.0


LEVELS = (25.0, 50.0, 75.0, ACCEPTS_NONE)


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 1000),
    levels=st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS)),
    last=st.integers(0, 2),
    kv=st.integers(90, 400),
)
def test_requests_with_exits_finish_when_their_twins_do(
    seed: int, levels: tuple[float, float], last: int, kv: int
) -> None:
    """The planner knows each length beforehand; the twin decides at every token, by the score that it sees there."""
    rng = np.random.default_rng(seed)
    n = 14
    known = small_points(rng, n)
    closed = [level if at < last else ACCEPTS_NONE for at, level in enumerate(levels)]
    setting = Setting((*closed, ACCEPTS_NONE, ACCEPTS_NONE), (last, 3))
    lengths = np.rint(folded(known, setting).output_tokens[0]).astype(np.int64)
    arrival_ps = np.cumsum(rng.integers(0, 9_000, n))
    read = rng.integers(1, 9, n)
    timing = machine(chunked=True, seqs=5, budget=16, kv=kv, block=4, context_ps=3, pair_ps=0.7)
    run = simulate_replica(timing, arrival_ps, read, lengths, np.zeros(n, np.int64))
    thinkers = [thinker(known, setting, prompt) for prompt in range(n)]
    sequences = [Sequence(i, int(arrival_ps[i]), int(read[i]), 10**6, 0) for i in range(n)]
    ExitingTwin(timing, sequences, thinkers).run()
    assert run.finish_ps.tolist() == [s.finish_ps for s in sequences]


def small_points(rng: np.random.Generator, prompts: int) -> Points:
    """Exits after 6 and 14 tokens of thinking, with trial answers of 1 to 4."""
    known = points(prompts=prompts)
    trials = np.zeros((4, prompts))
    trials[:2] = rng.integers(1, 5, (2, prompts))
    wrote = np.array([6.0, 14.0, 0.0, 20.0])[:, None] + trials
    wrote[2] = 18 + rng.integers(0, 30, prompts)
    return Points(
        replace(known.table, output_tokens=wrote, score=rng.random((4, prompts)) * 100), known.stage, trials
    )


def thinker(known: Points, setting: Setting, prompt: int) -> Thinker:
    end = setting.ends[0]
    exits = []
    for row, thought in zip(range(2), (6, 14), strict=True):
        opened = setting.levels[row] < ACCEPTS_NONE
        if (row < end and opened) or row == end:
            good = row == end or known.table.score[row, prompt] >= setting.levels[row]
            exits.append((thought, int(known.trial_tokens[row, prompt]), bool(good)))
    return Thinker(tuple(exits), int(known.table.output_tokens[2, prompt]))


def test_lengths_of_a_trace_shrink_as_the_tables_do() -> None:
    problem = with_exits(MEDIAN)
    assert problem.points is not None
    setting = Setting((0.0, *(ACCEPTS_NONE,) * 3), (2, 3))
    found = under(problem, setting)
    assert found.points is None
    assert set(found.workload.output_tokens[0].tolist()) == {240}
    assert (found.workload.output_tokens[1] == problem.workload.output_tokens[1]).all()


PROMISE = ExitPromise(0.01, 0.9, 0.1)
USED = Setting((50.0, 50.0, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3))


def test_who_is_drawn_thinks_to_the_end_and_until_certified_nobody_leaves() -> None:
    problem = replace(with_exits(MEDIAN, requests=2000), exits=PROMISE)
    after = under(problem, USED)
    before = after.until_certified
    assert before is not None
    assert before.until_certified is None
    whole = problem.workload.output_tokens[0]
    # Both trials of 40 tokens, as a request's own length stands to its prompt's.
    assert problem.points is not None
    prompts = problem.points.table.output_tokens[2][problem.workload.row]
    dear = np.rint(whole * (prompts + 80) / prompts)
    unlike = before.workload.output_tokens[0] != whole
    assert 0.07 < unlike.mean() < 0.13
    assert (before.workload.output_tokens[0][unlike] == dear[unlike]).all()
    assert (after.workload.output_tokens[0][unlike] == dear[unlike]).all()
    unpromised = under(replace(problem, exits=None), USED)
    assert unpromised.uncertified is None
    others = after.workload.output_tokens[0][~unlike] == unpromised.workload.output_tokens[0][~unlike]
    assert others.all()
    assert before.quality.left is not None
    assert not before.quality.left.any()
    assert (before.quality.score == problem.quality.score).all()


@pytest.mark.slow
def test_a_deployment_that_only_exits_let_hold_is_refused_where_they_are_certified_first(both: Both) -> None:
    result = both.exiting
    assert result.setting is not None
    promised = under(replace(both.problem, exits=PROMISE), result.setting)
    search, chosen = result.search, result.chosen.deployment
    search = replace(search, problem=replace(search.problem, uncertified=promised.uncertified))
    easy = promised.uncertified
    assert easy is not None
    assert until_certified(search, chosen, PROMISE).why == ""
    # Of three times the tokens its replicas do not keep up; of its own a bound may be broken.
    first = replace(easy, output_tokens=easy.output_tokens * 3)
    heavy = replace(search, problem=replace(search.problem, uncertified=first))
    told = until_certified(heavy, chosen, PROMISE)
    assert "is sent " in told.why
    assert told.requests == 3610
    slow = replace(easy, objective=replace(MEDIAN, latency_max_s=0.01))
    for state_, why in ((first, "is sent "), (easy, ""), (slow, "times the objective's bound")):
        strict = replace(search, problem=replace(search.problem, uncertified=state_))
        state = Refinement(strict, Simulator.of(strict.problem), References(strict))
        found = state.certified(result.chosen).certificate
        assert found is not None
        assert found.holds == (not why)
        assert why in found.why
        assert found.holds or found.why.startswith("until exits are certified ")


@pytest.mark.slow
def test_a_plan_tells_of_both_states_and_is_read_back(both: Both, tmp_path: Path) -> None:
    assert both.exiting.setting is not None
    promised = under(replace(both.problem, exits=PROMISE), both.exiting.setting)
    search = both.exiting.search
    search = replace(search, problem=replace(search.problem, uncertified=promised.uncertified))
    told = until_certified(search, both.exiting.chosen.deployment, PROMISE)
    made = replace(both.exiting.plan, exits=PROMISE, until_certified=replace(told, why="it is slow"))
    write_plan(made, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == made
    note = first_state_note(made)
    assert "at least 3,610 requests" in note
    assert note.endswith("this does not hold until then: it is slow")


def test_replicas_of_a_plan_without_exits_are_tried_under_routings_that_reach_the_bar_alone() -> None:
    deployed = np.array([[True, True], [True, True], [True, False], [True, True]])
    lower = np.array([80.0, 70.0, 90.0, 77.0])
    part = SimpleNamespace(deployed=deployed, lower=lower)
    asked = SimpleNamespace(routings=part, problem=SimpleNamespace(objective=MEDIAN), asks=lambda k: k == 3)
    for hosted, kept in ((False, [0, 3]), (True, [0])):
        search = SimpleNamespace(**vars(asked), self_hosted_judge=hosted)
        found = on_same_replicas(search, search, Deployment(1, ()))  # type: ignore[arg-type]
        assert [each.routing for each in found] == kept


def test_a_replay_draws_those_that_its_plan_drew() -> None:
    """Of the same seed, so that it simulates what was planned; without a table their part is in the mean length."""
    problem = replace(with_exits(MEDIAN, requests=200), exits=PROMISE)
    assert problem.points is not None
    after = under(problem, USED)
    small, large = two_stages(1, 1).stages
    exits = (ExitPlan(200, 50.0, 0.0), ExitPlan(600, 50.0, 0.0))
    planned = replace(two_stages(1, 1), stages=(replace(small, exits=exits), large), exits=PROMISE)
    table = folded_as_planned(planned, problem.points)
    again = table.as_left(problem.workload.output_tokens, problem.workload.row, problem.seed)
    assert (again == after.workload.output_tokens).all()
    unpromised = folded_as_planned(replace(planned, exits=None), problem.points)
    assert unpromised.shadow == 0.0
    assert table.drawn_tokens is not None
    expected = 0.9 * unpromised.output_tokens[0].mean() + 0.1 * table.drawn_tokens[0].mean()
    assert table.mean_tokens[0] == pytest.approx(expected)
    assert table.mean_tokens[0] > unpromised.mean_tokens[0]


def test_the_judges_load_and_the_simulator_have_the_verdicts_on_trials() -> None:
    """A judge on GPUs was planned for one verdict of those who think on and none of who leaves."""
    problem = with_exits(MEDIAN, requests=50)
    judge = replace(problem.judge, kind="llm", placement="self-hosted", prompt_tokens=100, output_tokens=3)
    exiting = replace(under(problem, Setting((50.0, 75.0, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3))), judge=judge)
    w, table = exiting.workload, exiting.quality
    assert table.verdicts is not None
    assert set(table.verdicts.count[0].tolist()) == {1, 2, 3}
    asked = table.verdicts.count[0, w.row]
    gated = at_gates(exiting)
    load = judge_load(exiting, np.ones_like(gated), gated)
    assert (load.output_tokens == 3 * asked).all()
    # Each reads instructions, question and a trial of 40 tokens; the last of three has the whole answer.
    read, tries = load.input_tokens - asked * (100 + w.input_tokens[0]), np.minimum(asked, 2)
    left = table.left[0, w.row]  # type: ignore[index]
    scale = w.output_tokens[0] / table.output_tokens[0, w.row]
    assert np.abs(read - np.where(left, 40 * tries * scale, w.output_tokens[0])).max() <= 1
    replica = Replica(machine(kv=1_000_000))
    gate = JudgeStage(
        (replica,),
        prompt_tokens=100,
        output_tokens=3,
        read_tokens=verdict_reads(exiting, gated),
        verdicts=verdicts_each(exiting, gated),
    )
    none = np.zeros(len(w), np.int64)
    stages = [
        CascadeStage((replica,), w.input_tokens[s], w.output_tokens[s], none, np.ones(len(w), bool))
        for s in range(2)
    ]
    run = simulate_cascade(stages, gate, arrival_ps(exiting) + np.arange(len(w)) * 10**15)
    assert run.verdicts is not None
    assert run.verdicts.run is not None
    alone = simulate_stage(
        (replica,), "round-robin", none[:1], load.input_tokens[:1], load.output_tokens[:1], none[:1]
    )
    assert run.verdicts.finish_ps[0] - run.verdicts.arrival_ps[0] == alone.finish_ps[0]


def test_who_is_drawn_as_evidence_waits_for_a_verdict_on_each_trial_and_the_answer_at_the_end() -> None:
    """In the state before certification too, where nobody else has a trial."""
    exiting = under(replace(with_exits(MEDIAN, requests=200), exits=replace(PROMISE, shadow=0.5)), USED)
    before = exiting.until_certified
    assert before is not None
    for problem in (exiting, before):
        w, table = problem.workload, problem.quality
        assert table.verdicts is not None
        assert table.drawn_verdicts is not None
        # Both exits and the whole answer; who is drawn is told apart by what the same request writes.
        assert (table.drawn_verdicts.count[0] == 3).all()
        assert (table.drawn_verdicts.trials[0] == 3).all()
        of_all = table.verdicts.count[0, w.row]
        asked, alike = verdicts_each(problem, at_gates(problem))[0], of_all == 3
        drawn = asked != of_all
        assert 0.3 < drawn[~alike].mean() < 0.7
        nobody = replace(table, shadow=0.0)
        whole = with_exits(MEDIAN, requests=200).workload.output_tokens
        as_all, as_they = nobody.as_left(whole, w.row, problem.seed), w.output_tokens
        assert (as_all[0] != as_they[0])[drawn].all()
        assert (as_all[0] == as_they[0])[~drawn & ~alike].all()
    gated = at_gates(before)
    read = verdict_reads(before, gated)[0] - verdicts_each(before, gated)[0] * (
        before.judge.prompt_tokens + before.workload.input_tokens[0]
    )
    assert (read == before.workload.output_tokens[0]).all()
