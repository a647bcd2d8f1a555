"""Budgets of thinking that the question alone decides: planned, counted, read back as they were written."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Objective
from cascadia.domain.plan import ExitPromise, ForesightPlan
from cascadia.domain.points import Exit, Points
from cascadia.domain.problem import Foresight, Problem
from cascadia.domain.quality import QualityTable
from cascadia.files.plan_file import plan_json, read_plan, write_plan
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import NO_CLIMB, PlanResult, plan
from cascadia.planner.problem.points import Named, read_as_planned, read_points
from cascadia.planner.problem.quality_file import write_quality
from cascadia.planner.refinement.refine import effort_for
from cascadia.planner.replay.replay import drawn_table, replay
from cascadia.planner.routing.points import LEFT, Setting, folded
from cascadia.planner.routing.routings import ACCEPTS_NONE, decided
from cascadia.planner.search.context import find_shapes
from cascadia.planner.search.exit_settings import under
from cascadia.planner.spec.models import StageSpec
from cascadia.report.text import plan_summary
from cascadia_judge.foresight import KEY, Foreseen, written
from tests.unit.planner.pointed import EXITS, points, with_exits
from tests.unit.planner.problems import hosted_judge, traffic

FIELD = "thinking_token_budget"
NAMED = (Named("s0", (Exit(200), Exit(600)), by_question=True), Named("s1", ()))


def foreseen(known: Points, noise: float = 5.0) -> np.ndarray:
    """What heads would promise of each row: the quality, not quite."""
    quality = known.table.quality
    return np.clip(quality + noise * np.random.default_rng(1).normal(size=quality.shape), 0, 100)


def with_budgets(objective: Objective, promise: ExitPromise | None = None, **more: int) -> Problem:
    made = with_exits(objective, **more)
    assert made.points is not None
    told, score, trial = (
        foreseen(made.points),
        made.points.table.score.copy(),
        made.points.trial_tokens.copy(),
    )
    score[:2], trial[:2] = 100 - np.maximum(0, told[2] - told[:2]), 0.0
    known = Points(replace(made.points.table, score=score), made.points.stage, trial, (0, 1))
    stages = (replace(made.stages[0], budget_field=FIELD), made.stages[1])
    return replace(made, stages=stages, points=known, exits=promise, foresight=Foresight("digest", 0.02))


def replayed_alike(found: PlanResult, problem: Problem, folder: Path, table: QualityTable) -> None:
    """`table`, read as the plan's exits leave it, is what was planned with, and requests go by it as planned."""
    assert found.setting is not None
    assert problem.points is not None
    assert table.output_tokens == pytest.approx(folded(problem.points, found.setting).output_tokens)
    ids = tuple(problem.quality.prompt_ids[row] for row in problem.workload.row)
    trace = replace(traffic(50, 12.0), prompt_id=ids)
    again = replay(found.plan, trace, folder=folder, table=table).predicted
    assert again.objective_s == pytest.approx(found.plan.predicted.objective_s, rel=0.1)


@pytest.mark.long
@pytest.mark.slow
def test_budgets_make_a_plan_better_and_it_is_read_back_and_replayed(tmp_path: Path) -> None:
    problem = with_budgets(Objective("latency", 0.5, 76.0), requests=50)
    assert problem.points is not None
    effort = replace(effort_for(problem.cluster), **NO_CLIMB)
    without, found = plan(replace(problem, points=None), effort=effort), plan(problem, effort=effort)
    small = found.plan.stages[0]
    assert small.exits
    assert not any(each.last for each in small.exits)
    assert (small.budget_field, found.plan.foresight) == (FIELD, ForesightPlan("digest", 0.02))
    assert found.plan.predicted.objective_s < 0.9 * without.plan.predicted.objective_s
    write_plan(found.plan, tmp_path / "plan.json")
    assert plan_json(read_plan(tmp_path / "plan.json")) == plan_json(found.plan)
    told = replace(points().table, foreseen=foreseen(points()))
    write_quality(told, tmp_path / "table.csv")
    table = read_as_planned(found.plan, tmp_path / "table.csv", None)
    replayed_alike(found, problem, tmp_path, table)
    drawn = drawn_table(found.plan, 0)
    assert drawn.left is not None
    assert drawn.verdicts is not None
    assert drawn.ahead is not None
    assert drawn.ahead.tolist() == [True, False]
    assert (drawn.verdicts.count[0] == ~drawn.left[0]).all()


@pytest.mark.slow
def test_nobody_asks_a_judge_on_our_gpus_about_who_leaves_at_a_budget() -> None:
    """At a gate, where others of the same stage are judged."""
    problem = with_budgets(Objective("latency", 0.5, 76.0), requests=50)
    assert problem.points is not None
    setting = Setting((90.0, 95.0, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3))
    exiting = replace(under(problem, setting), judge=hosted_judge())
    on = np.ones(2, np.bool_)
    decisions = decided(exiting.quality, on, [60.0], None).take(exiting.workload.row)
    left = folded(problem.points, setting).left
    assert left is not None
    gone = left[0][exiting.workload.row]
    assert 0 < gone.sum() < len(gone)
    assert not decisions.judged[0][gone].any()
    assert decisions.judged[0][~gone].all()
    assert (decisions.answered_by[gone] == 0).all()
    shapes = find_shapes(exiting)
    mixes = {s: (Replicas(shapes[s][0], 1, 1.0),) for s in (0, 1, JUDGE)}
    run = Simulator.of(exiting).run(deployment(0, mixes), decisions)
    assert run.verdicts is not None
    assert sorted(run.verdicts.requests.tolist()) == np.flatnonzero(~gone).tolist()
    assert (run.answered_by[gone] == 0).all()


def test_who_leaves_at_a_budget_writes_no_trial_and_is_not_judged() -> None:
    """Against each prompt worked out by itself; evidence is an answer and a verdict for each budget that would do."""
    known = with_budgets(Objective("latency", 0.5, 76.0)).points
    assert known is not None
    levels = (95.0, 90.0)
    setting, score, wrote = (
        Setting((*levels, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3)),
        known.table.score,
        known.table,
    )
    as_is, evidence = folded(known, setting), folded(known, setting, 0.25)
    gated = np.array([[True], [False]])
    assert as_is.ahead is not None
    assert as_is.ahead.tolist() == [True, False]
    for prompt in range(len(known.table)):
        at = next((row for row in (0, 1) if score[row, prompt] >= levels[row]), 2)
        row = np.array([prompt])
        assert as_is.output_tokens[0, prompt] == wrote.output_tokens[at, prompt]
        assert as_is.quality[0, prompt] == wrote.quality[at, prompt]
        assert as_is.score[0, prompt] == (LEFT if at < 2 else score[2, prompt])
        assert as_is.verdicts_of(row, gated)[0, 0] == (at == 2)
        assert as_is.verdicts_of(row, ~gated)[0, 0] == 0
        would = [each for each in (0, 1) if score[each, prompt] >= levels[each]]
        drawn = np.ones((2, 1), np.bool_)
        in_all = sum(wrote.output_tokens[each, prompt] for each in (*would, 2))
        assert evidence.drawn_tokens is not None
        assert evidence.drawn_tokens[0, prompt] == in_all
        assert evidence.verdicts_of(row, gated, drawn)[0, 0] == 1 + len(would)
        assert evidence.verdicts_of(row, ~gated, drawn)[0, 0] == (1 + len(would) if would else 0)


def test_a_look_at_the_question_is_waited_for() -> None:
    known = with_budgets(Objective("latency", 0.5, 76.0)).points
    assert known is not None
    table = folded(known, Setting((95.0, ACCEPTS_NONE, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3)))
    for deployed, looks in (((True, True), True), ((True, False), True), ((False, True), False)):
        found = decided(table, np.array(deployed), [50.0], None)
        assert found.foresees.any() == looks


def test_budgets_are_scored_by_what_is_foreseen_and_without_that_it_is_one_line(tmp_path: Path) -> None:
    known = points(20)
    write_quality(known.table, tmp_path / "plain.csv")
    write_quality(replace(known.table, foreseen=foreseen(known)), tmp_path / "table.csv")
    table, found = read_points(tmp_path / "table.csv", NAMED, None, lambda _: None)
    assert found is not None
    assert found.budgets == (0, 1)
    told = foreseen(known)
    assert found.table.score[:2] == pytest.approx(100 - np.maximum(0, told[2] - told[:2]))
    assert (found.table.score[2:] == known.table.score[2:]).all()
    assert (found.trial_tokens == 0).all()
    assert table.stages == ("s0", "s1")
    with pytest.raises(BadInput, match=r"no column foreseen, by which exits of stage 's0'"):
        read_points(tmp_path / "plain.csv", NAMED, None, lambda _: None)


def test_heads_of_a_file_stand_in_for_the_column(tmp_path: Path) -> None:
    """They need to know the points of stages that ask the question, and no others."""
    known, told = points(20), foreseen(points(20))
    write_quality(known.table, tmp_path / "plain.csv")
    heads = tmp_path / "heads.json"
    rows = Foreseen(known.table.prompt_ids, ("s0@200", "s0@600", "s0"), told[:3])
    heads.write_text(json.dumps({KEY: written(rows)}))
    _, found = read_points(tmp_path / "plain.csv", NAMED, None, lambda _: None, heads)
    assert found is not None
    assert found.table.score[:2] == pytest.approx(100 - np.maximum(0, told[2] - told[:2]), abs=1e-4)
    heads.write_text(json.dumps({KEY: written(rows._replace(stages=("s0@200", "s1", "s0")))}))
    with pytest.raises(BadInput, match="foresees nothing of stage 's0@600'"):
        read_points(tmp_path / "plain.csv", NAMED, None, lambda _: None, heads)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"exits": ()}, "there are no exits"),
        ({"engine": "trtllm"}, "trtllm has no field for a budget"),
        ({"exits": ({"thinking_tokens": 9, "foreseen": 95},)}, "foreseen is of trials"),
        ({"exits": ({"thinking_tokens": 0},)}, "no engine is told of a budget of 0"),
    ],
)
def test_budgets_that_no_engine_knows_are_refused(more: dict[str, object], said: str) -> None:
    told = {"name": "a", "model": "m", "exits": ({"thinking_tokens": 9},), "exits_by": "question"} | more
    with pytest.raises(ValueError, match=said):
        StageSpec.model_validate(told)


@pytest.mark.long
@pytest.mark.slow
def test_trials_where_the_question_promises_much_are_planned_read_back_and_replayed(tmp_path: Path) -> None:
    """Who has none is judged and has written as if there were no exit; the look at the question is waited for."""
    made, bars = with_exits(Objective("latency", 0.5, 76.0), requests=50), (90.0, 80.0)
    told = replace(points().table, foreseen=foreseen(points()))
    write_quality(told, tmp_path / "table.csv")
    asks = tuple(Exit(each.thinking_tokens, bar) for each, bar in zip(EXITS, bars, strict=True))
    _, known = read_points(tmp_path / "table.csv", (Named("s0", asks), Named("s1", ())), None, lambda _: None)
    assert known is not None
    stages = (replace(made.stages[0], exits=asks), made.stages[1])
    problem = replace(made, stages=stages, points=known, foresight=Foresight("digest", 0.02))
    effort = replace(effort_for(problem.cluster), **NO_CLIMB)
    without, found = plan(replace(problem, points=None), effort=effort), plan(problem, effort=effort)
    used = found.plan.stages[0].exits
    assert used
    assert [each.foreseen for each in used] == [
        None if each.last else bars[[200, 600].index(each.thinking_tokens)] for each in used
    ]
    assert found.plan.foresight == ForesightPlan("digest", 0.02)
    assert found.plan.predicted.objective_s < without.plan.predicted.objective_s
    assert found.plan.predicted.quality.lower >= 76.0
    write_plan(found.plan, tmp_path / "plan.json")
    assert plan_json(read_plan(tmp_path / "plan.json")) == plan_json(found.plan)
    table = read_as_planned(found.plan, tmp_path / "table.csv", None)
    replayed_alike(found, problem, tmp_path, table)
    drawn = drawn_table(found.plan, 0)
    assert drawn.ahead is not None
    assert drawn.ahead.tolist() == [True, False]
    console = Console(width=200, record=True, file=StringIO())
    console.print(plan_summary(found.plan))
    said = console.export_text()
    assert all(f"tried: ≥ {each.foreseen:g}" in said for each in used if each.foreseen is not None)
