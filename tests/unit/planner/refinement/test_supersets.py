"""Whoever is offered more pools gets no worse a plan."""

from dataclasses import replace

import pytest
import yaml

from cascadia.demo.plan_example import SPEC, SPEC_NAME, write_example
from cascadia.domain.cluster import Cluster
from cascadia.domain.problem import Problem
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import Effort
from tests.benchmarks.supersets import KINDS, SOME, best_value, drawn, worse

CASES = 4
LITTLE = Effort(simulated_requests=20_000)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """The first minute of the bundled example on three pools, for least cost within 25 s."""
    folder = tmp_path_factory.mktemp("example")
    write_example(folder)
    spec = yaml.safe_load(SPEC)
    spec["workload"]["max_requests"] = 1000
    spec["objective"] = {"minimize": "cost", "quality_min": 86, "latency_max_s": 25}
    spec["cluster"]["pools"] = [
        {"gpu": gpu, "nodes": 4, "gpus_per_node": 8} for gpu in ("h100-sxm", "l40s", "a100-sxm")
    ]
    (folder / SPEC_NAME).write_text(yaml.safe_dump(spec))
    return read_problem(folder / SPEC_NAME)


def test_of_the_example_a_second_and_a_third_pool_cost_nothing(example: Problem) -> None:
    """Searched as a whole only, they made the plan 6 and 11 % dearer."""
    pools = example.cluster.pools
    usd = [best_value(replace(example, cluster=Cluster(pools[:n])), LITTLE) for n in (1, 2, 3)]
    assert usd[2] <= usd[1] <= usd[0]


@pytest.mark.parametrize("seed", range(CASES))
def test_a_pool_more_never_makes_the_plan_worse(seed: int) -> None:
    assert worse(KINDS["pools"](seed)) == 0


def test_none_of_three_pools_and_no_pair_is_better_than_all() -> None:
    whole = drawn(3, 3)
    all_of_them = best_value(whole, SOME)
    pools = whole.cluster.pools
    for kept in [pools[:1], pools[1:2], pools[2:], pools[:2], pools[1:], (pools[0], pools[2])]:
        assert all_of_them <= best_value(replace(whole, cluster=Cluster(kept)), SOME) + 1e-9
