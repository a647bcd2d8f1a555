"""A stage that keeps up only because the trace's few requests drew easy questions is told of."""

import re
from dataclasses import replace

import numpy as np

from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan
from cascadia.planner.account.few_requests import few_requests_notes
from tests.unit.planner.instances import pool
from tests.unit.planner.problems import FIVE, LARGE, SMALL, briefly, problem, quality_table, traffic


def planned() -> Plan:
    return briefly(problem(FIVE[1:3], trace=traffic(60, 5.0), quality_min=50.0)).plan


def with_load(plan: Plan, stage: int, *, reached: float, load: float) -> Plan:
    stages = list(plan.predicted.stages)
    stages[stage] = replace(stages[stage], reached=reached, load=load)
    return replace(plan, predicted=replace(plan.predicted, stages=tuple(stages)))


def test_what_the_tables_questions_would_overload_is_told_with_both_shares() -> None:
    plan = with_load(planned(), 1, reached=0.28, load=0.77)
    (note,) = few_requests_notes(plan, np.array([1.0, 0.43]), 50, 60)
    assert "s1 gets 28% of the trace's 50 requests" in note
    assert "60 questions 43%: so many would be 118% of what it sustains" in note


def test_nothing_is_told_where_it_would_keep_up_or_where_the_trace_sends_more() -> None:
    plan = with_load(planned(), 1, reached=0.28, load=0.77)
    for share in (0.0, 0.2, 0.35):
        assert not list(few_requests_notes(plan, np.array([1.0, share]), 50, 60))
    idle = with_load(plan, 1, reached=0.0, load=0.0)
    assert not list(few_requests_notes(idle, np.array([1.0, 0.4]), 50, 60))


def test_a_plan_for_easy_questions_is_told_of_the_tables_hard_ones() -> None:
    """One request in twenty asks a question that the small model fails; of the table's questions every second."""
    half = np.repeat([90.0, 10.0], 100)
    table = quality_table([half, np.full(200, 90.0)], [half, np.full(200, 95.0)])
    given = problem(
        (SMALL, LARGE),
        pools=(pool(1, 2),),
        trace=traffic(200, 60.0),
        table=table,
        objective=Objective("cost", 0.95, 85.0, 60.0),
    )
    rows = np.where(np.arange(200) % 20 == 0, 150, 20)
    result = briefly(replace(given, workload=replace(given.workload, row=rows)))
    (note,) = [told for told in result.notes if "and its queue would grow" in told]
    # One row in twenty is hard, and 200 rows are drawn.
    assert re.search(r"s1 gets [3-7]% of the trace's 200 requests, but of the quality table's .* 50%", note)
