"""Deployments come out where they are best: unequal replicas, whole nodes, several nodes, stages left out."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.plan import Plan, StagePlan
from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.plan import open_search, solver
from cascadia.planner.refinement.refine import EFFORT, refine
from cascadia.planner.search.bilevel import bilevel
from cascadia.planner.search.context import allowed, restricted
from tests.benchmarks.exhaustive import exhaustive, stable_mixes
from tests.unit.planner.problems import (
    FIVE,
    LARGE,
    MEDIUM,
    ON_ROUTER,
    SMALL,
    briefly,
    hosted_judge,
    problem,
    quality_table,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow

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


def best_by_stages(given: Problem) -> dict[tuple[bool, ...], float]:
    """The latency of the best plan of each set of stages that reaches the bar, each searched for alone."""
    with open_search(given) as search:
        found = {}
        for stages in product((False, True), repeat=len(given.stages)):
            mine = (search.routings.deployed == stages).all(axis=1)
            if not (mine & allowed(search)).any():
                continue
            part = restricted(search, search.routings.take(mine))
            loop = bilevel(part, solver(part, "columns"), lambda _: None)
            best, _ = refine(part, loop, effort=EFFORT, progress=lambda _: None)
            found[stages] = best.latency_s if best else np.inf
        return found


def with_equal_replicas_s(given: Problem) -> Iterator[float]:
    """Latencies of a single model's deployments on replicas of one shape."""
    with open_search(given) as search:
        [demand], simulator = search.demands(0), Simulator.of(given)
        for mix in stable_mixes(demand, given.cluster.gpus):
            chosen = deployment(0, {0: mix})
            if len(mix) == 1 and chosen.fits(given.cluster):
                run = simulator.run(chosen, search.decisions(0))
                yield quantile_s(simulator.latency_s(run), given.objective.quantile)


def only(given: Problem, pool: Pool) -> Problem:
    return replace(given, cluster=Cluster((pool,)))


@pytest.mark.parametrize(("gpus", "rate_rps"), [(3, 16.0), (5, 25.0)])
def test_unequal_replicas_of_a_stage_win_where_equal_ones_leave_gpus_idle(gpus: int, rate_rps: float) -> None:
    node = Pool("l40s", "l40s", 1, gpus, 2.0)
    given = problem((MEDIUM,), pools=(node,), quality_min=40.0, trace=traffic(1000, rate_rps))
    found = briefly(given).plan
    assert len(found.stages[0].replicas) == 2
    assert found.stages[0].gpus == gpus
    assert found.predicted.objective_s < min(with_equal_replicas_s(given))
    with ThreadPoolExecutor(2) as threads:
        assert found.predicted.objective_s <= exhaustive(given, threads).value * 1.005


def test_a_model_that_fills_a_node_takes_a_whole_one() -> None:
    node = Pool("h100-sxm", "h100-sxm", 1, 8, 2.5)
    given = problem((HUGE,), pools=(node,), quantization="fp8", quality_min=40.0, trace=traffic(100, 0.5))
    assert of(briefly(given).plan.stages[0]) == [(8, 1, 1)]


def test_a_model_larger_than_a_node_spans_two_as_a_pipeline() -> None:
    """405B in BF16 weighs 810 GB, a node holds 640 GB."""
    nodes = Pool("h100-sxm", "h100-sxm", 2, 8, 2.5)
    found = briefly(problem((HUGE,), pools=(nodes,), quality_min=40.0, trace=traffic(100, 0.5))).plan
    assert of(found.stages[0]) == [(8, 2, 1)]


def test_four_nodes_hold_several_pipelines_across_nodes() -> None:
    nodes = Pool("h100-sxm", "h100-sxm", 4, 8, 2.5)
    found = briefly(problem((HUGE,), pools=(nodes,), quality_min=40.0, trace=traffic(200, 6.0))).plan
    assert sum(g.count for g in found.stages[0].replicas) > 1
    assert all(g.tp * g.pp > 8 for g in found.stages[0].replicas)


@pytest.mark.long
def test_a_stage_in_the_middle_is_left_out_where_it_adds_nothing() -> None:
    table = graded(60.0, 60.5, 90.0)
    given = problem(
        (SMALL, MEDIUM, LARGE), table=table, judge=ON_ROUTER, quality_min=70.0, trace=traffic(300)
    )
    found = briefly(given).plan
    assert deployed(found) == [True, False, True]
    assert found.thresholds[1] > 100
    best = best_by_stages(given)
    chosen_s = best.pop((True, False, True))
    assert {(False, True, True), (False, False, True)} <= set(best)
    assert chosen_s < min(best.values())


def test_a_stage_at_the_start_is_left_out_where_its_answers_are_never_good_enough() -> None:
    table = graded(5.0, 80.0, 90.0)
    found = briefly(problem((SMALL, MEDIUM, LARGE), table=table, judge=ON_ROUTER, quality_min=75.0)).plan
    assert deployed(found) == [False, True, False]
    assert found.thresholds[0] > 100
    assert found.thresholds[1] == 0


@pytest.mark.long
def test_a_stage_at_the_start_is_left_out_where_the_next_is_better_and_faster() -> None:
    table = graded(60.0, 70.0, 90.0, right=0.75)
    given = problem(
        (MEDIUM, SMALL, LARGE), table=table, judge=ON_ROUTER, quality_min=70.0, trace=traffic(300)
    )
    assert deployed(briefly(given).plan) == [False, True, True]
    best = best_by_stages(given)
    chosen_s = best.pop((False, True, True))
    assert {(True, False, True), (False, False, True)} <= set(best)
    assert chosen_s < min(best.values())


@pytest.mark.long
def test_a_stage_at_the_end_is_left_out_where_the_bar_is_low() -> None:
    given = problem((SMALL, MEDIUM, LARGE), table=graded(60.0, 80.0, 90.0), judge=ON_ROUTER, quality_min=65.0)
    found = briefly(given).plan
    assert deployed(found) == [True, True, False]
    assert found.mixture is not None
    assert not found.judges, "no gate is needed between two models one of which is enough alone"
    best = best_by_stages(given)
    assert len(best) >= 5
    assert min(best, key=lambda stages: best[stages]) == (False, True, False)
    assert found.predicted.e2e.p95_s < best[False, True, False]


@pytest.mark.long
@pytest.mark.parametrize("stages", [5])
def test_cascades_of_four_and_five_stages_are_planned(stages: int) -> None:
    table = rising_table(stages, levels=3)
    found = briefly(problem(FIVE[-stages:], table=table, judge=hosted_judge())).plan
    assert len(found.stages) == stages
    assert sum(deployed(found)) >= 2
    assert found.proof.status == "optimal"


LITTLE = Pool("little", "l4", 1, 4, 0.5)


@pytest.mark.long
def test_pools_of_different_gpus_serve_one_cascade() -> None:
    big = Pool("big", "h100-sxm", 1, 2, 2.5)
    little = Pool("little", "a10g", 1, 4, 0.5)
    given = problem((SMALL, LARGE), pools=(big, little), judge=ON_ROUTER, trace=traffic(400, 44.0))
    found = briefly(given).plan
    assert {g.pool for s in found.stages for g in s.replicas} == {"little", "big"}
    for pool in (big, little):
        assert sum(g.gpus for s in found.stages for g in s.replicas if g.pool == pool.name) <= pool.gpus
    usd = sum(g.gpus * given.cluster.pool(g.pool).usd_per_gpu_hour for s in found.stages for g in s.replicas)
    assert found.predicted.usd_per_hour == pytest.approx(usd)
    assert found.predicted.objective_s < briefly(only(given, big)).plan.predicted.objective_s
    with pytest.raises(Infeasible):
        briefly(only(given, little))


@pytest.mark.long
@pytest.mark.parametrize(
    ("pools", "rate_rps"),
    [
        ((Pool("a", "h100-sxm", 1, 2, 2.5), LITTLE), 40.0),
        ((Pool("a", "h100-sxm", 1, 4, 2.5), Pool("b", "a100-sxm", 1, 4, 1.5)), 40.0),
        ((Pool("a", "l40s", 2, 2, 2.0), Pool("b", "a100-sxm", 1, 3, 1.5)), 15.0),
    ],
)
def test_a_second_pool_does_not_make_a_plan_slower(pools: tuple[Pool, Pool], rate_rps: float) -> None:
    given = problem((SMALL, LARGE), pools=pools, judge=ON_ROUTER, trace=traffic(200, rate_rps))
    # Before a cheaper plan is taken that is about as fast.
    both, one = (briefly(p).fastest.latency_s for p in (given, only(given, pools[0])))
    assert both <= one
