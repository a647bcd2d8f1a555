"""Deployments come out where they are best: unequal replicas, whole nodes, several nodes, stages left out."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.plan import Plan, StagePlan
from cascadia.domain.quality import QualityTable
from cascadia.planner.plan import plan
from tests.benchmarks.exhaustive import exhaustive
from tests.unit.planner.problems import (
    EXTERNAL,
    FIVE,
    LARGE,
    MEDIUM,
    ON_ROUTER,
    SMALL,
    hosted_judge,
    problem,
    quality_table,
    traffic,
)

HUGE = "meta-llama/Llama-3.1-405B-Instruct"


def of(stage: StagePlan) -> list[tuple[int, int, int]]:
    return [(g.tp, g.pp, g.count) for g in stage.replicas]


def deployed(found: Plan) -> list[bool]:
    return [s.deployed for s in found.stages]


def graded(*quality_by_stage: float, prompts: int = 200, right: float = 0.6) -> QualityTable:
    """Stages of these qualities; a gate's score is 100 where the answer is good (a share `right`), else 0."""
    good = np.random.default_rng(0).uniform(size=(len(quality_by_stage), prompts)) < right
    quality = np.array(quality_by_stage)[:, None] + np.where(good, 4.0, -6.0)
    return quality_table(np.where(good, 100.0, 0.0), quality)


@pytest.mark.parametrize(("gpus", "rate_rps"), [(3, 40.0), (5, 40.0)])
def test_unequal_replicas_of_a_stage_win_where_equal_ones_leave_gpus_idle(gpus: int, rate_rps: float) -> None:
    node = Pool("l40s", "l40s", 1, gpus, 2.0)
    given = problem((MEDIUM,), pools=(node,), quality_min=40.0, trace=traffic(200, rate_rps))
    found = plan(given).plan
    assert len(found.stages[0].replicas) == 2
    assert found.stages[0].gpus == gpus
    with ThreadPoolExecutor(2) as threads:
        assert found.predicted.objective_s <= exhaustive(given, threads).latency_s * 1.005


def test_a_model_that_fills_a_node_takes_a_whole_one() -> None:
    node = Pool("h100-sxm", "h100-sxm", 1, 8, 2.5)
    given = problem((HUGE,), pools=(node,), quantization="fp8", quality_min=40.0, trace=traffic(100, 0.5))
    assert of(plan(given).plan.stages[0]) == [(8, 1, 1)]


def test_a_model_larger_than_a_node_spans_two_as_a_pipeline() -> None:
    """405B in BF16 weighs 810 GB, a node holds 640 GB."""
    nodes = Pool("h100-sxm", "h100-sxm", 2, 8, 2.5)
    found = plan(problem((HUGE,), pools=(nodes,), quality_min=40.0, trace=traffic(100, 0.5))).plan
    assert of(found.stages[0]) == [(8, 2, 1)]


def test_four_nodes_hold_several_pipelines_across_nodes() -> None:
    nodes = Pool("h100-sxm", "h100-sxm", 4, 8, 2.5)
    found = plan(problem((HUGE,), pools=(nodes,), quality_min=40.0, trace=traffic(200, 6.0))).plan
    assert sum(g.count for g in found.stages[0].replicas) > 1
    assert all(g.tp * g.pp > 8 for g in found.stages[0].replicas)


def test_a_stage_in_the_middle_is_left_out_where_it_adds_nothing() -> None:
    table = graded(60.0, 60.5, 90.0)
    given = problem(
        (SMALL, MEDIUM, LARGE), table=table, judge=ON_ROUTER, quality_min=70.0, trace=traffic(300)
    )
    found = plan(given).plan
    assert deployed(found) == [True, False, True]
    assert found.thresholds[1] > 100


def test_a_stage_at_the_start_is_left_out_where_its_answers_are_never_good_enough() -> None:
    table = graded(5.0, 80.0, 90.0)
    found = plan(problem((SMALL, MEDIUM, LARGE), table=table, judge=ON_ROUTER, quality_min=75.0)).plan
    assert deployed(found) == [False, True, False]
    assert found.thresholds[0] > 100
    assert found.thresholds[1] == 0


def test_a_stage_at_the_end_is_left_out_where_the_bar_is_low() -> None:
    given = problem((SMALL, MEDIUM, LARGE), table=graded(60.0, 80.0, 90.0), judge=ON_ROUTER, quality_min=65.0)
    assert not deployed(plan(given).plan)[2]


@pytest.mark.parametrize("stages", [4, 5])
def test_cascades_of_four_and_five_stages_are_planned(stages: int) -> None:
    found = plan(problem(FIVE[-stages:], judge=hosted_judge())).plan
    assert len(found.stages) == stages
    assert sum(deployed(found)) >= 3
    assert found.proof.status == "optimal"


def test_pools_of_different_gpus_serve_one_cascade() -> None:
    pools = (Pool("big", "h100-sxm", 1, 4, 2.5), Pool("little", "l4", 1, 4, 0.5))
    given = problem((SMALL, LARGE), pools=pools, judge=ON_ROUTER)
    found = plan(given).plan
    assert {g.pool for s in found.stages for g in s.replicas} == {"big", "little"}
    for pool in pools:
        assert sum(g.gpus for s in found.stages for g in s.replicas if g.pool == pool.name) <= pool.gpus
    usd = sum(g.gpus * given.cluster.pool(g.pool).usd_per_gpu_hour for s in found.stages for g in s.replicas)
    assert found.predicted.usd_per_hour == pytest.approx(usd)


def test_a_second_pool_does_not_make_a_plan_slower() -> None:
    first, second = Pool("a", "h100-sxm", 1, 4, 2.5), Pool("b", "a100-sxm", 1, 4, 1.5)
    one, both = (
        plan(problem((SMALL, LARGE), pools=pools, judge=EXTERNAL)).plan.predicted.objective_s
        for pools in ((first,), (first, second))
    )
    assert both <= one
