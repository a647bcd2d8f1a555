"""A plan in sentences: whole, in grammar and with the right numbers."""

import re
from dataclasses import replace

import pytest

from cascadia.domain.plan import ASKS_NONE, Mixture
from cascadia.report import tables, words
from cascadia.report.numbers import seconds
from cascadia.report.pictures import flow
from tests.unit.report import plans
from tests.unit.report.sample import sample_plan
from tests.unit.report.test_text import printed

NAMES = {"h100-sxm": "H100"}


def test_the_sample_plan_in_words() -> None:
    plan = sample_plan()
    assert words.headline(plan, NAMES) == "30 H100 GPUs serve 10 requests/s at quality ≥ 85 with p95 14.6 s"
    assert words.answered(plan, NAMES) == (
        "62 % of requests are answered by small (8B) on 4 H100 GPUs, 25 % by medium (70B) on 8 H100 GPUs "
        "and 13 % by large (405B) on 16 H100 GPUs."
    )
    assert words.gates(plan) == (
        "The judge (Llama-3.1-8B-Instruct) on 2 GPUs of its own scores answers from 0 to 100: small's answer is "
        "accepted at 71 … 76 or more, by how many requests are under way and medium's answer is always accepted or "
        "accepted at 88 or more, by how many requests are under way. Whatever is not accepted goes on to the next "
        "stage, and the last one always answers."
    )
    assert words.quality(plan) == (
        "Quality is 86.4 of 100 on average over 1,000 questions; with 95 % confidence it is 85.1 or better, "
        "where at least 85 was asked for."
    )
    assert words.latency(plan) == (
        "Half of the requests are answered within 2.94 s, 95 % within 14.6 s and 99 % within 22.9 s; the first "
        "token comes after 1.97 s at the median and 10.8 s at p95."
    )
    assert words.cost(plan, NAMES) == (
        "The plan costs $80.10 an hour (H100 at $2.67/h), or $2.23 per 1,000 requests. "
        "2 of 32 GPUs stay free."
    )
    assert words.allocation(plan) == (
        "Proven of the step that gives GPUs to stages: with these thresholds and latency tables, no allocation to "
        "the shapes considered brings the slowest stage's p95 below 11.2 s."
    )


def test_both_latency_figures_are_told_apart() -> None:
    told = words.both_latencies(sample_plan())
    assert "slowest one is 11.2 s" in told
    assert "end-to-end p95 is 14.6 s, simulated" in told


def test_the_headline_follows_the_goal() -> None:
    quality, cost = plans.for_quality(), plans.for_cost()
    assert words.headline(quality, NAMES) == (
        "30 H100 GPUs serve 10 requests/s within 20.0 s (p95 14.6 s) at quality 85.1 or better"
    )
    assert words.headline(cost, NAMES).endswith("at quality ≥ 85 with p99 14.6 s for $80.10/h")


def test_the_repeats_are_told_at_the_quantile_that_a_bound_is_on() -> None:
    plan = plans.for_cost()
    assert plan.stability is not None
    again = replace(plan.stability, objective_once_s=21.5, objective_repeated_s=22.5)
    told = words.carries(replace(plan, stability=again))
    assert "8 times end to end has p99 22.5 s after 21.5 s" in told


def test_several_kinds_of_gpus_are_all_named() -> None:
    plan = plans.thousand_gpus()
    assert words.headline(plan, {}).startswith("60 L40S, 191 A100 80GB, 504 H100 and 249 H200 GPUs serve 412")


def test_a_stage_without_gpus_is_said_to_be_left_out() -> None:
    plan = plans.without_middle()
    assert words.answered(plan, NAMES).endswith("on 16 H100 GPUs. Not deployed: medium.")
    assert "medium" not in words.gates(plan)
    assert words.limits(plan, "large") == (0.0,)


def test_a_lone_stage_has_no_gate() -> None:
    plan = plans.one_stage()
    assert words.gates(plan) == "Every request goes straight to large; there is no gate to pass."
    assert "100 % of requests are answered by large (405B)" in words.answered(plan, NAMES)


def test_gates_that_let_all_or_nothing_through_say_so() -> None:
    told = words.gates(plans.thresholds_at_their_ends())
    assert "small's answer is always accepted and medium's answer is never accepted" in told


def test_the_proof_speaks_of_the_goal_and_claims_the_allocation_alone() -> None:
    plan = sample_plan()
    tried = replace(plan, proof=replace(plan.proof, tried=1240))
    fastest = replace(tried, objective=replace(plan.objective, within=0.0))
    assert words.proof(fastest) == (
        "Fastest of 1,240 deployments tried, each simulated end to end; the allocation alone is proven. "
        "On small cases all of 65 plans were within 0.5 % of enumeration."
    )
    thrifty = replace(tried, objective=replace(plan.objective, within=0.03))
    assert words.proof(thrifty).startswith("Cheapest within 3 % of the fastest of 1,240 deployments tried, ")
    for make, best in (
        (plans.for_cost, "Cheapest"),
        (plans.for_quality, "At the highest quality found, cheapest"),
    ):
        assert words.proof(make()).startswith(f"{best} of the deployments tried, ")
    for make in (sample_plan, plans.for_cost, plans.for_quality, *plans.EDGES):
        said = words.proof(make())
        assert "ptimal" not in said
        assert "stage" not in said
        assert seconds(make().proof.bound_s) not in said


def test_a_time_limit_is_never_called_a_proof() -> None:
    for plan in (plans.stopped_early(), plans.unproven()):
        assert "nothing is proven" in words.proof(plan)
    assert words.allocation(plans.stopped_early()) == (
        "When the solver stopped, the allocation's slowest stage's p95 was 11.2 s, and none can bring it below "
        "10.8 s, so at most 3.7 % could still be gained in that step."
    )
    assert "∞" not in words.allocation(plans.unproven()) + words.both_latencies(plans.unproven())


@pytest.mark.parametrize(
    ("kind", "placement", "start"),
    [("embedding", "router", "An embedding judge beside the router scores"),
     ("certainty", "router", "The models' own certainty scores"),
     ("llm", "external", "The judge (Llama-3.1-8B-Instruct), an external service, scores")],
)  # fmt: skip
def test_judges_without_gpus(kind: str, placement: str, start: str) -> None:
    from dataclasses import replace

    plan = sample_plan()
    judge = replace(plan.judge, kind=kind, placement=placement, replicas=())
    assert words.gates(replace(plan, judge=judge)).startswith(start)


def test_who_is_not_asked_is_said_before_who_goes_on() -> None:
    plan = sample_plan()
    skipping = replace(plan, judge=replace(plan.judge, kind="embedding"), skip_below=(20.0, 0.0))
    assert "Before that, small is not asked where the question alone promises less than 20. " in words.gates(
        skipping
    )
    assert "Before that" not in words.gates(plan)
    assert "are asked" in flow(skipping)
    assert "are asked" not in flow(plan)


def test_a_mixture_without_a_gate_names_no_judge() -> None:
    mixed = Mixture(0.25, (ASKS_NONE, ASKS_NONE), (ASKS_NONE, ASKS_NONE))
    plan = replace(sample_plan(), thresholds=(0.0, ASKS_NONE), skip_below=(0.0, ASKS_NONE), mixture=mixed)
    assert words.gates(plan).startswith("No answer is judged. Two routings are mixed")
    assert "none: no answer is judged" in printed(replace(plan, judge=replace(plan.judge, replicas=())), 120)


def test_limits_that_are_told_are_those_in_force() -> None:
    """A plan with gears goes by theirs; its own thresholds then accept nothing."""
    plan = replace(sample_plan(), thresholds=(31.0, 32.0))
    told = [words.gates(plan), flow(plan), str(tables.stages(plan)), printed(plan, 120)]
    for text in told:
        assert not re.search(r"(≥|<|at) (31|32)\b", text)
        assert "71" in text
    single = replace(plan, gears=())
    assert words.limits(single, "small") == (31.0,)
    mixed = replace(single, mixture=Mixture(0.25, (60.0, 32.0), (0.0, 0.0)))
    assert words.limits(mixed, "small") == (31.0, 60.0)
    assert words.threshold_words(words.limits(mixed, "small")) == "score ≥ 31 … 60"
