"""The price of nodes that are paid for whole: what plans under a budget are ranked by, and what they say they cost."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Goal, Objective
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.options import Option, idle_usd
from cascadia.planner.plan import PlanResult, plan
from cascadia.planner.replay.replay import replay
from cascadia.planner.tables.shapes import Shape
from tests.benchmarks.supersets import FEW
from tests.unit.planner.instances import shape
from tests.unit.planner.problems import MEDIUM, SMALL, problem, traffic

NODES = Pool("nodes", "l40s", 6, 3, 1.0)
OTHERS = Pool("others", "h100-sxm", 4, 4, 2.5)


def by_node(pool: Pool, tp: int) -> Shape:
    return replace(shape(tp, pool=pool.name, usd_per_gpu=pool.usd_per_gpu_hour), by_node=pool)


def test_combinations_are_priced_as_deployments_are() -> None:
    """Where groups of two leave a third GPU of each node idle, too."""
    single = shape(1, pool="single", usd_per_gpu=7.0)
    shapes = [by_node(NODES, 1), by_node(NODES, 2), by_node(OTHERS, 4), by_node(OTHERS, 1), single]
    each = [(Replicas(s, n, 1.0),) for s in shapes for n in (1, 2, 5)]
    each += [(*each[0], *each[4]), (*each[4], *each[7])]
    choices = [[Option(mix, 1.0) for mix in each] for _ in range(2)]
    grid = np.array(list(product(range(len(each)), repeat=2)))
    made = [deployment(0, {0: each[a], 1: each[b]}) for a, b in grid.tolist()]
    assert idle_usd(choices, grid) == pytest.approx([d.usd_per_hour - d.in_use_usd for d in made])
    pools = (NODES, OTHERS, Pool("single", "l4", 9, 8, 7.0, rent="gpu"))
    paid_usd = [sum(d.rented(pool) * pool.usd_per_unit_hour for pool in pools) for d in made]
    assert [d.usd_per_hour for d in made] == pytest.approx(paid_usd)
    assert any(d.usd_per_hour > d.in_use_usd for d in made)


def offered(
    budget_usd: float, *pools: Pool, goal: Goal = "cost", latency_max_s: float = 2.0, rate_rps: float = 60.0
) -> Problem:
    made = problem((SMALL, MEDIUM), pools=pools, trace=traffic(60, rate_rps))
    objective = Objective(goal, 0.95, 45.0, latency_max_s)
    return replace(made, objective=objective, cluster=replace(made.cluster, budget_usd_per_hour=budget_usd))


def rent_usd(result: PlanResult) -> float:
    return sum((pool.rented or 0) * pool.usd_per_unit_hour for pool in result.plan.cluster.pools)


def least_usd(made: Problem) -> float:
    try:
        return rent_usd(plan(made, effort=FEW))
    except Infeasible:
        return float("inf")


@pytest.mark.long
@pytest.mark.parametrize("latency_max_s", [2.0, 1.2])
def test_more_dollars_or_pools_never_rent_dearer_nodes(latency_max_s: float) -> None:
    """GPUs in use were once counted: two of a node of eight cost less than four of two nodes of two."""
    eight, two = Pool("eight", "h100-sxm", 2, 8, 1.4), Pool("two", "l40s", 4, 2, 1.0)

    def least(budget_usd: float, *pools: Pool) -> float:
        return least_usd(offered(budget_usd, *pools, latency_max_s=latency_max_s))

    alone = [least(31.0, eight), least(31.0, two)]
    both = [least(budget, eight, two) for budget in (8.0, 31.0)]
    assert both == sorted(both, reverse=True)
    assert both[-1] <= min(alone) < float("inf")


@pytest.mark.long
def test_a_plan_costs_what_its_nodes_do_and_a_replay_says_the_same(tmp_path: Path) -> None:
    made = offered(40.0, Pool("eight", "l40s", 4, 8, 1.0), latency_max_s=8.0)
    result = plan(made, effort=FEW)
    predicted = result.plan.predicted
    assert predicted.usd_per_hour == pytest.approx(rent_usd(result)) == pytest.approx(8.0)
    twice = replace(made.cluster.pools[0], rented=2)
    idle = replace(result.plan, cluster=replace(result.plan.cluster, pools=(twice,)))
    for told, paid_usd in ((result.plan, 8.0), (idle, 16.0)):
        assert sum(told.usd_per_hour_of(s.replicas) for s in told.stages) == pytest.approx(paid_usd)
    again = replay(result.plan, traffic(60, 60.0), folder=tmp_path)
    assert again.predicted.usd_per_hour == pytest.approx(predicted.usd_per_hour)


@pytest.mark.long
def test_gpus_that_are_paid_for_all_the_same_answer_too() -> None:
    """One by one, the fewest GPUs that keep the bound; of a node that is paid for whole, what is fastest."""
    whole = Pool("eight", "l40s", 1, 8, 1.0)
    sparing = plan(offered(40.0, replace(whole, rent="gpu"), latency_max_s=8.0), effort=FEW)
    result = plan(offered(40.0, whole, latency_max_s=8.0), effort=FEW)
    assert result.plan.gpus > sparing.plan.gpus == rent_usd(sparing)
    assert result.plan.predicted.objective_s < 0.7 * sparing.plan.predicted.objective_s
    fastest = plan(offered(40.0, whole, goal="latency", latency_max_s=8.0), effort=FEW)
    assert result.plan.predicted.objective_s <= 1.1 * fastest.plan.predicted.objective_s
