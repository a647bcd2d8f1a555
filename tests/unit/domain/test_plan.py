"""What a plan says of itself: its GPUs, whether it judges, and what its thresholds mean by stage."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.objective import UnderLoad, bar_meant
from cascadia.domain.plan import (
    ASKS_NONE,
    ErrorRange,
    ExitPlan,
    ForesightPlan,
    JudgePlan,
    Mixture,
    NodeLoss,
    Plan,
    QuestionRange,
    ReplicaGroup,
    Stability,
)
from cascadia.domain.problem import Foresight, Judge, Uncertified
from cascadia.domain.workload import Workload
from cascadia.testing.plans import NO_JUDGE, POOLS, plan, stage, three_stages
from tests.unit.planner.problems import ON_ROUTER, problem

ONE = ReplicaGroup("h100", tp=1, pp=1, count=1, share=1.0)


def of(*deployed: bool, **changes: object) -> Plan:
    """Stages `s0`, `s1`, ... with a replica each where deployed, and thresholds of 50."""
    made = plan([stage(f"s{i}", *([ONE] if here else [])) for i, here in enumerate(deployed)], POOLS)
    return replace(made, **changes)  # type: ignore[arg-type]


def geared(threshold: float, *stages: str) -> Gear:
    return Gear(None, None, stages or ("s0", "s1"), (threshold,))


def test_gpus_are_counted_by_group_pool_and_plan() -> None:
    made = three_stages()
    assert [s.gpus for s in made.stages] == [4 + 4, 4 + 12, 16]
    assert made.judge.gpus == 1
    assert made.gpus == 41
    assert made.gpus_by_pool() == {"h100": 37, "l4": 4}
    assert [g.gpus for g in made.groups] == [4, 4, 4, 12, 16, 1]
    assert POOLS.gpus == 48
    assert [pool.gpus for pool in POOLS.pools] == [40, 8]
    assert POOLS.pool("l4").usd_per_gpu_hour == 0.8


def test_a_stage_without_replicas_is_not_deployed() -> None:
    assert [s.deployed for s in of(True, False).stages] == [True, False]


def test_only_a_server_has_gpus_that_are_cores() -> None:
    cluster = Cluster((Pool("a", "cpu", 1, 16, 0.0), Pool("b", "h100-sxm", 1, 8, 2.0)))
    assert [pool.on_cores for pool in cluster.pools] == [True, False]


@pytest.mark.parametrize(
    ("made", "judges"),
    [
        (of(True, True), True),
        (of(True, True, thresholds=(0.0,)), False),
        (of(False, True), False),  # nobody is asked before the last
        (of(True, False), False),  # who is asked first is the last there is
        (of(True, False, True, thresholds=(0.0, 50.0)), False),  # the gate is of a stage that is not there
        (of(True, True, skip_below=(40.0,)), True),
        (of(True, True, skip_below=(ASKS_NONE,)), False),
        (of(True, True, skip_below=(ASKS_NONE - 0.5,)), True),
        (of(True, True, thresholds=(0.0,), mixture=Mixture(0.1, (50.0,), (0.0,))), True),
        (of(True, True, thresholds=(0.0,), mixture=Mixture(0.1, (50.0,), (ASKS_NONE,))), False),
        # Where there are gears they say it, and not the setting that the plan would have without.
        (of(True, True, thresholds=(0.0,), gears=(geared(50.0), geared(40.0))), True),
        (of(True, True, gears=(geared(0.0), geared(50.0, "s0"), geared(50.0, "s1"))), False),
        (of(True, True, gears=(geared(0.0), replace(geared(50.0), skip_below=(ASKS_NONE,)))), False),
    ],
)
def test_a_plan_judges_where_some_answer_waits_for_a_verdict(made: Plan, judges: bool) -> None:
    assert made.judges is judges


HEADS = ForesightPlan("0" * 64, 0.01)


@pytest.mark.parametrize(
    ("made", "asks"),
    [
        (of(True, True), True),
        (of(True, True, foresight=HEADS), True),  # for a verdict
        (of(True, True, thresholds=(0.0,)), False),
        (of(True, True, thresholds=(0.0,), skip_below=(40.0,)), True),  # of the question
        (of(True, True, thresholds=(0.0,), skip_below=(0.5,)), True),
        (of(True, True, thresholds=(0.0,), skip_below=(40.0,), foresight=HEADS), False),  # which heads tell
        (of(True, True, thresholds=(0.0,), skip_below=(0.0,)), False),  # nobody skips
        (of(True, True, thresholds=(0.0,), skip_below=(ASKS_NONE,)), False),  # all do, whatever is foreseen
        (of(True, True, thresholds=(0.0,), skip_below=(150.0,)), False),
        (of(True, True, thresholds=(0.0,), gears=(replace(geared(0.0), skip_below=(40.0,)),)), True),
    ],
)
def test_a_judge_is_asked_for_verdicts_and_of_questions_that_no_heads_tell_of(made: Plan, asks: bool) -> None:
    """Without it, what a router is told to foresee is never told; one that nobody asks is paid for in vain."""
    assert made.asks_judge is asks


def test_a_stage_looks_at_questions_for_its_budgets_and_for_trials_that_are_worth_it() -> None:
    plain, foreseen = ExitPlan(256, 50.0, 0.5), ExitPlan(512, 50.0, 0.5, foreseen=40.0)
    looks = [
        stage("s0", ONE, exits=(plain,)).looks,
        stage("s0", ONE, exits=(plain, foreseen)).looks,
        stage("s0", ONE, exits=(plain,), budget_field="thinking_budget").looks,
        stage("s0", ONE, budget_field="thinking_budget").looks,
    ]
    assert looks == [False, True, True, False]


def test_the_bound_that_a_plan_holds_is_that_of_its_repeats_where_they_are_slower() -> None:
    made = of(True, True)
    once_s = made.predicted.objective_s

    def repeated(seconds: float) -> Plan:
        told = {"p95_repeated_s": 1.0, "backlog_first": 0.0, "backlog_last": 0.0}
        return replace(
            made,
            stability=Stability(2, 1, 1.0, objective_once_s=once_s, objective_repeated_s=seconds, **told),
        )

    held = [made.held_s, repeated(once_s / 2).held_s, repeated(2 * once_s).held_s]
    assert held == [once_s, once_s, 2 * once_s]


def test_what_idles_on_a_node_rented_whole_is_paid_for_by_those_who_use_it() -> None:
    """Three GPUs of four, at 1.70 $ each: 6.80 $ among three."""
    group = replace(ONE, tp=3)
    pool = Pool("h100", "h100-sxm", 1, 4, 1.7)
    whole = plan([stage("s0", group)], Cluster((replace(pool, rented=1),)))
    assert whole.usd_per_hour_of(whole.groups) == pytest.approx(6.8)
    assert whole.usd_per_hour_of([replace(group, tp=1)]) == pytest.approx(6.8 / 3)
    owned = plan([stage("s0", group)], Cluster((pool,)))
    assert owned.usd_per_hour_of(owned.groups) == pytest.approx(5.1)


def test_a_stage_that_the_question_decides_about_is_foreseen() -> None:
    made = of(True, True, True, True, thresholds=(50.0,) * 3, skip_below=(0.0, 40.0, ASKS_NONE))
    assert [made.skips(f"s{i}") for i in range(4)] == [None, 40.0, ASKS_NONE, None]
    assert [made.foreseen_from(f"s{i}") for i in range(4)] == [None, 40.0, None, None]
    assert [of(True, True).skips(f"s{i}") for i in range(2)] == [None, None]


@pytest.mark.parametrize(("skip_below", "asked"), [(100.0, True), (101.0, False), (150.0, False)])
def test_files_say_that_a_stage_is_never_asked_by_more_than_can_be_foreseen(
    skip_below: float, asked: bool
) -> None:
    made = of(True, True, skip_below=(skip_below,))
    assert made.judges is asked
    assert made.foreseen_from("s0") == (skip_below if asked else None)


def test_a_mixture_is_told_by_deployed_stages_that_have_a_gate() -> None:
    other = Mixture(0.25, (10.0, 20.0), (1.0, 2.0))
    made = of(True, False, True, mixture=other)
    assert made.mixture_by_stage == (0.25, {"s0": 10.0}, {"s0": 1.0})
    assert made.mixture_document() == {
        "mixture": {"share": 0.25, "thresholds": {"s0": 10.0}, "skip_below": {"s0": 1.0}}
    }
    assert made.routings == (((50.0, 50.0), ()), ((10.0, 20.0), (1.0, 2.0)))
    whole = of(True, True, True, mixture=other)
    assert whole.mixture_by_stage == (0.25, {"s0": 10.0, "s1": 20.0}, {"s0": 1.0, "s1": 2.0})
    alone = of(True, True)
    assert alone.mixture_by_stage is None
    assert alone.mixture_document() == {}
    assert alone.routings == (((50.0,), ()),)


def test_rates_are_told_of_the_judge_too_where_it_has_gpus() -> None:
    judge = JudgePlan(
        "llm", "self-hosted", "m", engine="vllm", quantization=None, max_model_len=1, replicas=(ONE,)
    )
    assert plan([stage("s0", ONE)], POOLS, judge).predicted.rates_rps() == {"s0": 6.0, "judge": 6.0}
    assert plan([stage("s0", ONE)], POOLS, NO_JUDGE).predicted.rates_rps() == {"s0": 6.0}


@pytest.mark.parametrize(
    ("bar", "meant"), [(0.78, 78.0), (1.0, 100.0), (0.0, None), (1.5, None), (78.0, None), (-0.5, None)]
)
def test_a_fraction_was_meant_of_a_hundred(bar: float, meant: float | None) -> None:
    assert bar_meant(bar) == meant


@pytest.mark.parametrize(
    ("arrival_s", "rate_rps"),
    [([], 0.0), ([0.0], 0.0), ([0.0, 0.0], 0.0), ([0.0, 2.0], 1.0), ([0.0, 1.0, 2.0], 1.5)],
)
def test_a_workloads_rate_is_over_its_arrivals(arrival_s: list[float], rate_rps: float) -> None:
    n, some = len(arrival_s), np.ones((1, len(arrival_s)), np.int64)
    made = Workload(np.array(arrival_s), np.zeros(n, np.int64), some, some, np.zeros(n, np.int64))
    assert made.rate_rps == rate_rps
    assert not made.told_by_table


def test_gears_are_told_by_the_gates_of_the_stages_that_they_ask() -> None:
    gears = (
        Gear(40.0, 8.0, ("s0", "s1", "s2"), (60.0, 70.0), (0.0, 5.0)),
        Gear(None, None, ("s1", "s2"), (0.0, 50.0)),
    )
    assert of(True, True, True, gears=gears).gears_document() == {
        "gears": [
            {
                "max_in_flight": 40.0,
                "stages": ["s0", "s1", "s2"],
                "thresholds": {"s0": 60.0, "s1": 70.0},
                "skip_below": {"s0": 0.0, "s1": 5.0},
            },
            {"max_in_flight": None, "stages": ["s1", "s2"], "thresholds": {"s1": 50.0}, "skip_below": {}},
        ]
    }
    assert of(True, True, gears=gears[:1]).gears_document() == {}
    assert of(True, True, gears=()).gears_document() == {}


def test_of_what_a_plan_does_not_say_nothing_is_assumed() -> None:
    """Older plans lack these."""
    judge = JudgePlan(
        "embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
    )
    times_and_prices = (
        judge.latency_p50_s,
        judge.latency_p95_s,
        judge.usd_per_million_input_tokens,
        judge.usd_per_million_output_tokens,
    )
    assert times_and_prices == (0.0, 0.0, 0.0, 0.0)
    assert (judge.prompt_tokens, judge.output_tokens, judge.scale, judge.prompt_version) == (
        0,
        1,
        100.0,
        None,
    )
    assert stage("a", ONE).output_ratio == 1.0


@pytest.mark.parametrize(
    ("arrivals", "rate"),
    [
        ((0.0, 1.0, 2.0), 1.5),
        ((0.0, 0.5), 4.0),
        ((0.0,), 0.0),
        ((2.0,), 0.0),
        ((0.0, 0.0), 0.0),
        ((0.0, 0.0, 1.5), 2.0),
    ],
)
def test_requests_that_all_come_at_once_have_no_rate(arrivals: tuple[float, ...], rate: float) -> None:
    ones = np.ones(len(arrivals), dtype=np.int64)
    assert Workload(np.array(arrivals), ones, ones[None], ones[None], ones).rate_rps == rate


@pytest.mark.parametrize(
    ("bar", "meant"), [(0.0, None), (0.01, 1.0), (0.5, 50.0), (1.0, 100.0), (1.5, None), (2.0, None)]
)
def test_up_to_one_a_bar_is_taken_for_a_fraction(bar: float, meant: float | None) -> None:
    assert bar_meant(bar) == meant


def test_a_bar_that_was_meant_is_told_without_the_noise_of_its_fraction() -> None:
    assert bar_meant(0.57) == 57.0 != 100 * 0.57
    assert bar_meant(0.12345678912) == 12.345679


@pytest.mark.parametrize("threshold", [0.5, 1.0, 50.0])
def test_any_threshold_above_nothing_is_judged(threshold: float) -> None:
    assert of(True, True, thresholds=(threshold,)).judges
    assert not of(True, True, thresholds=(0.0,)).judges


def test_a_verdict_is_one_token_unless_it_is_said_to_be_longer() -> None:
    assert Judge("llm", "external").output_tokens == 1


def test_foresight_and_the_floor_under_load_are_the_problems_own_where_it_has_them() -> None:
    known = problem(judge=ON_ROUTER)
    assert (known.quality_floor, known.foresight_s) == (None, ON_ROUTER.latency_p50_s)
    other = replace(known, under_load=UnderLoad(45.0), foresight=Foresight("0" * 64, 0.125))
    assert (other.quality_floor, other.foresight_s) == (45.0, 0.125)
    assert replace(known, foresight=Foresight("0" * 64)).foresight_s == 0.02


def test_a_model_serves_its_own_context_unless_its_engine_is_told_a_shorter_one() -> None:
    known = problem().stages[0]
    assert known.built is known.architecture
    assert known.max_model_len == known.built.max_position
    assert replace(known, config=replace(known.config, max_model_len=4096)).max_model_len == 4096
    assert replace(known, architecture=None).max_model_len == 1_000_000


def test_until_its_exits_are_certified_a_problem_has_everybodys_whole_answer() -> None:
    known = problem()
    assert known.until_certified is None
    whole = 2 * known.workload.output_tokens
    asked = replace(known.objective, quality_min=60.0)
    first = replace(known, uncertified=Uncertified(known.quality, whole, asked)).until_certified
    assert first is not None
    assert first.workload.output_tokens is whole
    assert (first.quality, first.objective, first.uncertified) == (known.quality, asked, None)


def test_of_a_loss_or_a_range_that_older_plans_do_not_tell_the_least_is_assumed() -> None:
    loss = NodeLoss("h100", 8)
    assert (loss.interruptions_per_day, loss.rate_rps, ErrorRange(1.0, 2.0).slow_holds) == (0.0, 0.0, True)
    made = three_stages()
    assert (made.predicted.usd_per_hour_elsewhere, made.proof.tried) == (0.0, 0)
    assert not ExitPlan(256, 50.0, 0.5).last
    assert QuestionRange(1.0, 2.0, 0.95).high_holds


def test_what_a_spec_does_not_ask_for_is_not_searched_and_no_gear_is_made() -> None:
    known = problem(judge=Judge("certainty", "router"))
    assert not any(stage.searches_batch_tokens or stage.may_draft for stage in known.stages)
    judge = known.judge
    assert not judge.searches_batch_tokens
    assert (judge.prompt_tokens, judge.latency_p50_s, judge.latency_p95_s) == (0, 0.0, 0.0)
    assert (judge.usd_per_million_input_tokens, judge.usd_per_million_output_tokens) == (0.0, 0.0)
    assert known.gears == 1
