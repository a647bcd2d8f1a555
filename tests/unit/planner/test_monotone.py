"""A higher bar is never faster, and more GPUs are never slower: without any tolerance.

tests/e2e/test_plans_at_length.py and tests/benchmarks/bench_supersets.py draw others.
"""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.problem import Problem
from cascadia.planner.plan import routings_of
from tests.benchmarks.exhaustive import random_problem
from tests.unit.planner.problems import briefly

pytestmark = pytest.mark.slow


def predicted_s(problem: Problem) -> float:
    """Infinite where there is no plan."""
    try:
        return briefly(problem).plan.predicted.objective_s
    except (Infeasible, BadInput):
        return float("inf")


def drawn(seed: int, times_the_traffic: float) -> Problem:
    problem = random_problem(seed, requests=200)
    w = problem.workload
    return replace(problem, workload=replace(w, arrival_s=w.arrival_s / times_the_traffic))


def with_nodes(problem: Problem, nodes: int, gpus_per_node: int) -> Problem:
    pool: Pool = problem.cluster.pools[0]
    return replace(problem, cluster=Cluster((replace(pool, nodes=nodes, gpus_per_node=gpus_per_node),)))


def with_bar(problem: Problem, quality_min: float) -> Problem:
    return replace(problem, objective=replace(problem.objective, quality_min=quality_min))


@pytest.mark.long
@pytest.mark.parametrize(("seed", "times_the_traffic", "at"), [(8, 2.0, (0.25, 0.75))])
def test_a_higher_bar_never_predicts_a_lower_latency(
    seed: int, times_the_traffic: float, at: tuple[float, float]
) -> None:
    problem = with_nodes(drawn(seed, times_the_traffic), 1, 8)
    low, high = np.quantile(routings_of(problem)[0].lower, sorted(at)).tolist()
    assert predicted_s(with_bar(problem, low)) <= predicted_s(with_bar(problem, high))


@pytest.mark.parametrize(("seed", "times_the_traffic", "clusters"), [(5, 2.0, ((1, 3), (2, 3)))])
def test_more_gpus_never_predict_a_higher_latency(
    seed: int, times_the_traffic: float, clusters: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    problem = drawn(seed, times_the_traffic)
    few, many = (predicted_s(with_nodes(problem, *cluster)) for cluster in clusters)
    assert many <= few
