"""Plans beside exhaustive search on a few quick instances; `bench_optimality.py` measures more."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.benchmarks.bench_optimality import ALLOWED_GAP, KINDS, measure, on_an_odd_node
from tests.benchmarks.exhaustive import random_problem


@pytest.mark.parametrize("seed", [0, 8, 12, 40, 46])
def test_a_plan_is_within_half_a_percent_of_the_best_of_all_deployments(seed: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = measure("seed", random_problem(seed, requests=200), threads)
    assert found.cascades > 0
    assert np.isfinite(found.latency_s)
    assert found.gap <= ALLOWED_GAP


@pytest.mark.parametrize("seed", [21, 23, 37, 40])
def test_so_is_one_on_a_node_that_no_power_of_two_fills(seed: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = measure("odd", on_an_odd_node(seed), threads)
    assert found.mixed
    assert found.gap <= ALLOWED_GAP


@pytest.mark.parametrize(
    ("kind", "seed"), [("odd", 4), ("odd", 14), ("two-pools", 21), ("two-pools", 30), ("judged", 21)]
)
def test_so_is_one_where_other_shares_than_those_of_capacity_are_better(kind: str, seed: int) -> None:
    """By shares in proportion to capacity these were 1.3 to 11 % off."""
    given = KINDS[kind](seed)
    assert given is not None
    with ThreadPoolExecutor(2) as threads:
        found = measure(kind, given, threads)
    assert found.mixed
    assert found.gap <= ALLOWED_GAP
