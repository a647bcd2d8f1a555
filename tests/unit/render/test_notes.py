from dataclasses import replace

from cascadia.domain.plan import ExitPlan, ReplicaGroup
from cascadia.render import notes
from cascadia.testing.plans import POOLS, plan, stage, three_stages

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)


def test_a_plan_that_runs_as_it_is_has_no_notes() -> None:
    assert notes(three_stages()) == ()


def test_a_checkpoint_that_must_be_exchanged_is_named() -> None:
    (note,) = notes(plan([stage("large", ONE, model="deepseek/x", quantization="awq-int4")], POOLS))
    assert note.startswith("stage large: planned with awq-int4")
    assert notes(plan([stage("large", ONE, model="org/x-AWQ", quantization="awq-int4")], POOLS)) == ()


def test_weights_to_be_put_in_place_are_named() -> None:
    (note,) = notes(plan([stage("s", ONE, model="m/config.json")], POOLS))
    assert "/models/m" in note


def test_what_sglang_needs_for_budgets_of_thought_is_named() -> None:
    exits = (ExitPlan(512, 95.0, 0.3),)
    bounded = stage("s", ONE, engine="sglang", exits=exits, budget_field="custom_params.thinking_budget")
    (note,) = notes(plan([bounded], POOLS))
    assert note.startswith("stage s: SGLang ignores the router's budgets of thought unless")
    assert notes(plan([replace(bounded, budget_field=None)], POOLS)) == ()


def test_a_stage_that_is_not_deployed_needs_nothing() -> None:
    assert notes(plan([stage("s", model="m/config.json")], POOLS)) == ()
