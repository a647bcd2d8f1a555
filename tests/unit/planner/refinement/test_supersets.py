"""Whoever is offered more pools gets no worse a plan."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster
from tests.benchmarks.supersets import KINDS, SOME, best_value, drawn, worse

CASES = 4


@pytest.mark.parametrize("seed", range(CASES))
def test_a_pool_more_never_makes_the_plan_worse(seed: int) -> None:
    assert worse(KINDS["pools"](seed)) == 0


def test_none_of_three_pools_and_no_pair_is_better_than_all() -> None:
    whole = drawn(3, 3)
    all_of_them = best_value(whole, SOME)
    pools = whole.cluster.pools
    for kept in [pools[:1], pools[1:2], pools[2:], pools[:2], pools[1:], (pools[0], pools[2])]:
        assert all_of_them <= best_value(replace(whole, cluster=Cluster(kept)), SOME) + 1e-9
