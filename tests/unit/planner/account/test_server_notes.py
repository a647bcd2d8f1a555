"""A replica that sends nearly as many tokens as one API process of its engine can is told of."""

from dataclasses import replace

import pytest

from cascadia.domain.plan import Plan
from cascadia.domain.workload import Workload
from cascadia.planner.account.server_notes import FULL_TOKENS_PER_S, NEAR, server_notes
from tests.unit.planner.problems import FIVE, briefly, problem, traffic


@pytest.fixture(scope="module")
def planned() -> tuple[Plan, Workload]:
    given = problem(FIVE[1:3], trace=traffic(60, 5.0), quality_min=50.0)
    return briefly(given).plan, given.workload


def sending(plan: Plan, workload: Workload, tokens_per_s: float) -> tuple[Plan, Workload]:
    """The plan, each replica of whose first stage sends so many tokens a second."""
    first, *others = plan.predicted.stages
    replicas = sum(group.count for group in plan.stages[0].replicas)
    rate = tokens_per_s * replicas / float(workload.output_tokens[0].mean())
    stages = (replace(first, rate_rps=rate), *others)
    return replace(plan, predicted=replace(plan.predicted, stages=stages)), workload


def test_half_of_what_one_process_sends_is_told_with_the_flag_that_helps(
    planned: tuple[Plan, Workload],
) -> None:
    (note,) = server_notes(*sending(*planned, 1.01 * NEAR * FULL_TOKENS_PER_S))
    assert note.startswith(f"each replica of {planned[0].stages[0].name} sends 8,585 tokens/s on average")
    assert "full at 17,000" in note
    assert "--api-server-count" in note


def test_less_is_not_told_nor_another_engine_nor_a_stage_without_replicas(
    planned: tuple[Plan, Workload],
) -> None:
    assert not list(server_notes(*sending(*planned, 0.99 * NEAR * FULL_TOKENS_PER_S)))
    plan, workload = sending(*planned, 2 * FULL_TOKENS_PER_S)
    for other in ({"engine": "sglang"}, {"replicas": ()}):
        stages = (replace(plan.stages[0], **other), *plan.stages[1:])  # type: ignore[arg-type]
        assert not list(server_notes(replace(plan, stages=stages), workload))
