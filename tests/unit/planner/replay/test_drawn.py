"""A plan without its table is replayed on questions that are drawn as it predicts, exits and verdicts among them."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.plan import ExitPlan, Plan, ReplicaGroup
from cascadia.planner.replay.replay import drawn_table
from cascadia.testing.plans import POOLS, plan, stage

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)


def thinking(*exits: ExitPlan, budget_field: str | None = None) -> Plan:
    """The first of two stages thinks; half of what comes is answered by each."""
    made = plan([stage("small", ONE, exits=exits, budget_field=budget_field), stage("large", ONE)], POOLS)
    first, second = made.predicted.stages
    stages = (replace(first, accepted=0.5), replace(second, reached=0.5, accepted=0.5))
    return replace(made, predicted=replace(made.predicted, stages=stages))


@pytest.mark.parametrize(
    ("last", "left", "went_on"), [(False, 1, 3), (True, 1, 2)], ids=["thinks on", "leaves at the last"]
)
def test_verdicts_are_one_a_trial_and_one_on_a_whole_answer(last: bool, left: int, went_on: int) -> None:
    """A fifth of all leave at the first exit, and a tenth at the second: most have had one trial."""
    table = drawn_table(thinking(ExitPlan(256, 80.0, 0.2), ExitPlan(512, 80.0, 0.1, last=last)), 1)
    assert table.left is not None
    assert table.verdicts is not None
    assert table.left[0].mean() == pytest.approx(0.3, abs=0.02)
    counts = table.verdicts.count[0]
    assert set(counts[table.left[0]]) == {left}
    assert set(counts[~table.left[0]]) == {went_on}
    # Where no verdict sends anybody on, trials alone are judged.
    assert set(table.verdicts.trials[0][~table.left[0]]) == {went_on - 1}


def test_who_leaves_within_a_budget_waits_for_no_verdict() -> None:
    table = drawn_table(thinking(ExitPlan(256, 80.0, 0.2), budget_field="thinking_budget"), 1)
    assert table.left is not None
    assert table.verdicts is not None
    np.testing.assert_array_equal(table.verdicts.count[0], ~table.left[0])
