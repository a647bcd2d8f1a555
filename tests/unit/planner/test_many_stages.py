"""Cascades of two to six stages with fine scores are planned, also where nobody comes as far as the last of them."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.quality import QualityTable
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.allocation.knapsack import EPS
from cascadia.planner.deployment.options import options
from cascadia.planner.plan import open_search
from tests.unit.planner.problems import (
    FIVE,
    NODE,
    briefly,
    hosted_judge,
    problem,
    quality_table,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow

SIX = (*FIVE, "Qwen/Qwen2.5-72B-Instruct")
TWO_NODES = Pool("h100-sxm", "h100-sxm", 2, 8, 2.5)


def ends_early(stages: int, prompts: int, seed: int) -> QualityTable:
    """As `rising_table`, with fine scores; the answers of the last stage but one pass every gate."""
    rising = rising_table(stages, prompts=prompts, levels=1000, seed=seed)
    score = rising.score.copy()
    score[-2] = 100.0 - np.arange(prompts) % 3
    return quality_table(score, rising.quality)


@pytest.mark.long
@pytest.mark.parametrize("stages", [6, 2])
def test_two_to_six_stages_with_fine_scores_are_planned(stages: int) -> None:
    table = rising_table(stages, prompts=150, levels=1000)
    bar = float(np.quantile(table.quality.mean(axis=1), 0.6)) - 4.0
    given = problem(
        SIX[-stages:],
        pools=(TWO_NODES,),
        table=table,
        judge=hosted_judge(),
        quality_min=bar,
        trace=traffic(150, 60.0),
    )
    found = briefly(given).plan
    assert found.predicted.quality.lower >= bar
    served = {s.name for s in found.predicted.stages if s.reached > 0}
    assert served <= {s.name for s in found.stages if s.deployed}


@pytest.mark.long
@pytest.mark.parametrize("stages", [2, 3])
def test_no_plan_has_a_replica_of_a_stage_that_no_question_of_the_table_reaches(stages: int) -> None:
    table = ends_early(stages, 120, seed=stages)
    given = problem(SIX[-stages:], pools=(TWO_NODES,), table=table, judge=hosted_judge(), quality_min=45.0)
    with open_search(given) as search:
        assert not (search.routings.deployed & (search.routings.reached <= 0)).any()
    found = briefly(given).plan
    for stage, seen in zip(found.stages, found.predicted.stages, strict=True):
        assert not stage.deployed or seen.reached > 0


def test_what_has_no_work_gets_one_replica_all_the_same() -> None:
    """The traffic may send nobody to a stage that a question of the table reaches: the next day's may."""
    given = problem(judge=hosted_judge(), trace=traffic(100, 5.0))
    with open_search(given) as search:
        demands = [demand for demand, _ in search.whole_demands()]
    assert {d.stage for d in demands} == {0, 1, JUDGE}
    for demand in demands:
        found = options(demand, Cluster((NODE,)), need=0.0)
        assert found
        assert all(sum(r.count for r in option.replicas) >= 1 for option in found)
        one = min(shape.gpus for shape in demand.shapes)
        assert min(option.gpus for option in found) == one
        assert min(sum(r.count / r.level for r in o.replicas) for o in found) > EPS


def test_a_stage_that_this_traffic_does_not_reach_has_a_replica_for_the_next() -> None:
    """One question in 400 goes on to the last stage; the 30 requests drew others."""
    rng = np.random.default_rng(0)
    quality = np.stack([80 + rng.normal(size=400), 95 + rng.normal(size=400)])
    score = np.stack([np.where(np.arange(400) == 7, 0.0, 100.0), np.full(400, 100.0)])
    given = problem(table=quality_table(score, quality), judge=hosted_judge(), quality_min=0.0)
    rows = np.where(given.workload.row == 7, 8, given.workload.row)
    given = replace(given, workload=replace(given.workload, row=rows))
    with open_search(given) as search:
        both = np.flatnonzero(search.routings.deployed.all(axis=1))
        assert len(both) >= 1
        demands = search.demands(int(both[0]))
    assert len(demands) == 3
    found = briefly(given).plan
    assert all(s.gpus > 0 for s in found.stages if s.deployed)
