"""What a plan tells a router's file of its stages, its exits and its predictions, by hand."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Pool, Spot
from cascadia.domain.objective import UnderLoad
from cascadia.domain.plan import (
    ExitPlan,
    ExitPromise,
    JudgePlan,
    LatencyLine,
    Plan,
    Quantiles,
    ReplicaGroup,
    StagePlan,
)
from cascadia.domain.planned import planned_document
from cascadia.domain.policy import Policies, Policy, PolicyRow
from cascadia.testing.plans import FRONTIER_API, NO_JUDGE, POOLS, plan, stage
from cascadia_sim.iteration.engine_config import EngineConfig

ONE = ReplicaGroup("h100", tp=1, pp=1, count=1, share=1.0)
GATE = ExitPlan(512, 70.0, left=0.4)
LAST = replace(GATE, last=True)
PROMISE = ExitPromise(0.05, 0.95, 0.1)


def of(*stages: StagePlan, **changes: object) -> Plan:
    return replace(plan(stages, POOLS), **changes)  # type: ignore[arg-type]


def test_a_stage_is_told_by_its_name_and_says_only_what_is_not_the_router_s_default() -> None:
    made = of(stage("a", ONE, max_tokens=100), stage("b", ONE, max_tokens=200), stage("c", ONE))
    told = [made.stage_document(name) for name in "abc"]
    assert told == [{"max_tokens": 100}, {"max_tokens": 200}, {}]
    turned = of(
        stage("c", ONE, max_tokens=300), stage("b", ONE, max_tokens=200), stage("a", ONE, max_tokens=100)
    )
    assert [turned.stage_document(name)["max_tokens"] for name in "abc"] == [100, 200, 300]


def test_a_rule_of_sharing_is_told_with_the_bound_that_it_needs() -> None:
    made = of(
        stage("a", ONE), stage("b", ONE, balancing="earliest-finish"), stage("z", ONE, balancing="matching")
    )
    bounded = replace(made, objective=replace(made.objective, latency_max_s=20.0))
    assert bounded.stage_document("a") == {}
    assert bounded.stage_document("b") == {"balancing": "earliest-finish", "latency_max_s": 20.0}
    assert bounded.stage_document("z") == {"balancing": "matching", "latency_max_s": 20.0}


def test_requests_wait_at_the_router_only_for_a_stage_that_matches_them() -> None:
    made = of(
        stage("a", ONE, balancing="earliest-finish"), stage("b", ONE, balancing="matching"), stage("c", ONE)
    )
    few = EngineConfig(max_num_seqs=64)
    assert [made.places(name, few) for name in ("a", "b", "c", "judge")] == [128, 64, 128, 128]


def test_each_rank_that_attends_to_requests_of_its_own_has_room_for_as_many() -> None:
    made = of(stage("a", ONE), stage("b", ONE, balancing="matching"), stage("c", ONE))
    ranks = EngineConfig(max_num_seqs=64, attention_dp=8)
    assert [made.places(name, ranks) for name in ("a", "b")] == [1024, 512]
    assert made.places("a", EngineConfig(max_num_seqs=65_536, max_num_batched_tokens=65_536)) == 100_000


def test_loads_are_told_to_four_digits_where_gears_go_by_them() -> None:
    made = of(stage("a", ONE), stage("b", ONE), stage("c", ONE))
    seen = tuple(
        replace(one, load=load)
        for one, load in zip(made.predicted.stages, (0.123456, 0.75, 0.00001), strict=True)
    )
    loaded = replace(made, predicted=replace(made.predicted, stages=seen))
    assert [loaded.stage_document(name) for name in "abc"] == [{}, {}, {}]
    heavy = replace(made.gears[0], max_in_flight=9.0)
    geared = replace(loaded, gears=(heavy, *made.gears))
    assert [geared.stage_document(name) for name in "abc"] == [{"load": 0.1235}, {"load": 0.75}, {}]
    assert replace(made, gears=geared.gears).stage_document("a") == {}


def test_exits_are_told_with_how_the_engine_goes_on_from_them() -> None:
    exits = [{"thinking_tokens": 512, "threshold": 70.0}]
    ended = [{"thinking_tokens": 512, "threshold": 70.0, "last": True}]
    vllm = of(stage("a", ONE, exits=(GATE,)), stage("b", ONE, exits=(LAST,), engine="llama.cpp"))
    assert vllm.stage_document("a") == {"exits": exits}
    assert vllm.stage_document("b") == {"exits": ended, "echoes": True}
    assert of(stage("a", ONE, engine="llama.cpp")).stage_document("a") == {}
    asks = of(stage("a", ONE, exits=(replace(GATE, foreseen=95.0),)))
    assert asks.stage_document("a") == {"exits": [exits[0] | {"foreseen": 95.0}]}
    budgets = of(stage("a", ONE, exits=(GATE,), budget_field="b"), stage("c", ONE, budget_field="b"))
    assert [budgets.stage_document(name) for name in "ac"] == [{"exits": exits, "budget_field": "b"}, {}]


def test_the_load_is_the_stages_own_in_whichever_order_predictions_stand() -> None:
    made = of(stage("a", ONE), stage("b", ONE))
    seen = tuple(
        replace(one, load=load) for one, load in zip(made.predicted.stages, (0.25, 0.5), strict=True)
    )
    geared = (replace(made.gears[0], max_in_flight=9.0), *made.gears)
    for order in (seen, seen[::-1]):
        told = replace(made, predicted=replace(made.predicted, stages=order), gears=geared)
        assert [told.stage_document(name) for name in "ab"] == [{"load": 0.25}, {"load": 0.5}]


def test_an_exit_is_judged_unless_nobody_thinks_on_behind_it() -> None:
    """Thresholds of 0 keep every answer; only exits may ask."""
    two = [stage("a", ONE), stage("b", ONE)]
    of_b = [of(two[0], replace(two[1], exits=exits), thresholds=(0.0,)) for exits in ((GATE,), (LAST,))]
    assert [made.judges for made in of_b] == [True, False]
    gone = of(replace(two[0], replicas=(), exits=(GATE,)), two[1], thresholds=(0.0,))
    assert not gone.judges
    assert not of(stage("a"), stage("b"), thresholds=(50.0,)).judges


@pytest.mark.parametrize(
    ("here", "told"), [((GATE,), {"exits": {"risk": 0.05, "confidence": 0.95, "shadow": 0.1}}), ((), {})]
)
def test_a_promise_is_told_where_a_deployed_stage_has_exits(here: tuple[ExitPlan, ...], told: object) -> None:
    made = of(stage("a", ONE, exits=here), stage("gone", exits=(GATE,)), exits=PROMISE)
    assert made.exits_document() == told
    assert replace(made, exits=None).exits_document() == {}


def test_what_becomes_of_requests_beyond_the_gears_is_told_beside_the_rest() -> None:
    made = of(stage("a", ONE, exits=(GATE,)), exits=PROMISE, under_load=UnderLoad(then="refuse"))
    assert made.under_load_document() == {"under_load": {"then": "refuse"}}
    assert made.routing_document() == made.under_load_document() | made.exits_document()
    assert of(stage("a", ONE)).routing_document() == {}


def test_stages_of_a_group_are_on_the_same_replicas_which_count_once() -> None:
    """As many as are in no group count each."""
    grouped = [stage(name, ONE, group="classifiers", task="classify") for name in "ab"]
    assert of(*grouped, stage("c", ONE), stage("d", ONE)).gpus == 3


def test_a_stage_elsewhere_is_deployed_without_gpus() -> None:
    made = of(stage("a"), stage("b", external=FRONTIER_API), stage("c", ONE))
    assert [(one.deployed, one.gpus) for one in made.stages] == [(False, 0), (True, 0), (True, 1)]
    judges = [replace(NO_JUDGE, replicas=groups) for groups in ((), (ONE,))]
    assert [judge.deployed for judge in judges] == [False, True]


def test_a_replica_tells_where_its_latency_begins_to_be_learnt_from() -> None:
    line = LatencyLine(0.1, 0.2, 0.3, 0.4)
    told = {"base_s": 0.1, "read_s": 0.2, "step_s": 0.3, "load_s": 0.4}
    group = ReplicaGroup("h100", tp=2, pp=3, count=4, share=1.0)
    assert (group.gpus, group.learns) == (24, {})
    assert replace(group, latency=line).learns == {"kind": "h100 TP=2 PP=3", "latency": told}


def test_predictions_are_told_to_five_digits_with_the_dollars_of_a_stage_s_own_gpus() -> None:
    judge = JudgePlan(
        "llm", "self-hosted", "m", engine="vllm", quantization=None, max_model_len=1, replicas=(ONE,)
    )
    two = ReplicaGroup("l4", tp=2, pp=1, count=2, share=0.5)
    made = plan([stage("a", ONE, two), stage("gone")], POOLS, judge)
    found = replace(made.predicted, e2e=Quantiles(1.0, 1.234567, 2.0, 3.0), score_mean=None)
    told = planned_document(replace(made, predicted=found))["planned"]
    assert (told["p50_s"], told["p95_s"], told["ttft_p95_s"]) == (1.2346, 2.0, 1.0)
    assert (told["quality"], told["quality_lower"], told["usd_per_hour"]) == (86.0, 85.1, 80.0)
    assert "score" not in told
    seen = {"reached": 1.0, "answered": 0.5, "p95_s": 8.0, "usd_per_hour": 2.67 + 4 * 0.8, "replicas": 3}
    assert told["stages"] == {"a": pytest.approx(seen)}
    assert told["judge"] == pytest.approx({**seen, "p95_s": 0.4, "usd_per_hour": 2.67, "replicas": 1})
    assert "judge" not in planned_document(plan([stage("a", ONE)], POOLS))["planned"]


def test_of_spot_nodes_the_spot_price_is_told() -> None:
    pool = Pool("h100", "h100-sxm", 1, 8, 2.0, spot=Spot(0.5, 1.0))
    made = plan([stage("a", ONE)], replace(POOLS, pools=(pool,)))
    assert planned_document(made)["planned"]["stages"]["a"]["usd_per_hour"] == 0.5


def test_a_stage_that_older_plans_foretell_nothing_of_is_left_out_and_so_are_plans_by_policy() -> None:
    made = of(stage("a", ONE), stage("b", ONE))
    known = replace(made, predicted=replace(made.predicted, stages=made.predicted.stages[:1]))
    assert list(planned_document(known)["planned"]["stages"]) == ["a"]
    level = Policy(100.0, (PolicyRow((0.0,), ("a",), (1,)),))
    one_pass = Policies("g", ("a",), slo_s=0.1, workers=1, queue="worker", index="rate", levels=(level,))
    assert planned_document(replace(made, policies=(one_pass,))) == {}
