"""Plans beside exhaustive search on a few quick instances; `bench_optimality.py` measures more."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.benchmarks.bench_optimality import ALLOWED_GAP, KINDS, measure
from tests.benchmarks.exhaustive import random_problem


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 12, 46])
def test_a_plan_is_within_half_a_percent_of_the_best_of_all_deployments(seed: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = measure("seed", random_problem(seed, requests=200), threads)
    assert found.cascades > 0
    assert np.isfinite(found.planned)
    assert found.gap <= ALLOWED_GAP


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize(
    ("kind", "seed"),
    [("odd", 14), ("two-pools", 1), ("two-pools", 23), ("judged", 42)],
)
def test_so_is_one_where_unequal_replicas_are_best_with_their_shares_enumerated_too(
    kind: str, seed: int
) -> None:
    given = KINDS[kind](seed)
    assert given is not None
    with ThreadPoolExecutor(2) as threads:
        found = measure(kind, given, threads)
    assert found.mixed
    assert found.gap <= ALLOWED_GAP
