"""Whole nodes rented within a budget: the integer program agrees with trying every part of every pool."""

from dataclasses import replace
from itertools import product

import pytest

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.columns import allocate
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.tables.packing import fits, nodes_needed
from tests.unit.planner.enumeration import best_by_enumeration
from tests.unit.planner.instances import pool, random_instance, shape

SEVERAL = range(14)


@pytest.mark.parametrize("seed", SEVERAL)
def test_the_program_rents_as_well_as_whoever_tries_every_number_of_nodes(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed, pools=2)
    dearest = sum(p.nodes * p.usd_per_node_hour for p in cluster.pools)
    for part in (0.4, 0.7):
        budget = part * dearest
        found = allocate(demands, replace(cluster, budget_usd_per_hour=budget), verdict_s=verdict_s)
        reached = []
        for nodes in product(*(range(p.nodes + 1) for p in cluster.pools)):
            if sum(k * p.usd_per_node_hour for k, p in zip(nodes, cluster.pools, strict=True)) <= budget:
                bought = tuple(replace(p, nodes=k) for k, p in zip(nodes, cluster.pools, strict=True))
                best = best_by_enumeration(demands, Cluster(bought), verdict_s)
                reached += [best[0]] if best else []
        assert (found and found.latency_s) == min(reached, default=None)
        if found is not None:
            here = Deployment(0, tuple(found.replicas.items()))
            assert here.fits(replace(cluster, budget_usd_per_hour=budget))
            assert sum(here.rented(p) * p.usd_per_unit_hour for p in cluster.pools) <= budget + 1e-9


@pytest.mark.long(in_ci=4)
@pytest.mark.parametrize("seed", SEVERAL)
def test_a_larger_budget_is_never_worse_nor_is_one_more_pool(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed, pools=2)
    dearest = sum(p.nodes * p.usd_per_node_hour for p in cluster.pools)
    before = float("inf")
    for part in (0.25, 0.5, 0.75, 1.0, 2.0):
        found = allocate(demands, replace(cluster, budget_usd_per_hour=part * dearest), verdict_s=verdict_s)
        reached = found.latency_s if found else float("inf")
        for p in cluster.pools:
            kept = [d for d in demands if any(s.pool == p.name for s in d.shapes)]
            if len(kept) == len(demands):
                without = replace(p, nodes=0)
                fewer = tuple(without if other is p else other for other in cluster.pools)
                less = allocate(
                    demands, Cluster(fewer, budget_usd_per_hour=part * dearest), verdict_s=verdict_s
                )
                assert reached <= (less.latency_s if less else float("inf"))
        assert reached <= before
        before = reached


def test_nodes_are_counted_whole_and_as_replicas_lie_on_them() -> None:
    four = pool(8, 4)
    assert nodes_needed(four, []) == 0
    assert nodes_needed(four, [(shape(1), 5)]) == 2
    assert nodes_needed(four, [(shape(4), 1), (shape(1), 1)]) == 2
    assert nodes_needed(four, [(shape(4, pp=2), 1)]) == 2
    three = pool(8, 3)
    # Two GPUs of three: a node holds one such group, and a single GPU beside it.
    assert nodes_needed(three, [(shape(2), 3), (shape(1), 3)]) == 3
    assert nodes_needed(three, [(shape(2), 3), (shape(1), 4)]) == 4
    for counts in ([(shape(2), 3), (shape(1), 4)], [(shape(1), 7)], [(shape(2, pp=3), 1)]):
        k = nodes_needed(three, counts)
        assert fits(replace(three, nodes=k), counts)
        assert not fits(replace(three, nodes=k - 1), counts)


@pytest.mark.parametrize("seed", range(4))
def test_gpus_rented_one_by_one_are_paid_for_one_by_one(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed, pools=2)
    pools = tuple(replace(p, rent="gpu") for p in cluster.pools)
    budget = 0.6 * sum(p.gpus * p.usd_per_gpu_hour for p in pools)
    found = allocate(demands, Cluster(pools, budget), verdict_s=verdict_s)
    whole = allocate(demands, replace(cluster, budget_usd_per_hour=budget), verdict_s=verdict_s)
    assert (found.latency_s if found else float("inf")) <= (whole.latency_s if whole else float("inf"))
    if found is not None:
        here = Deployment(0, tuple(found.replicas.items()))
        paid = sum(here.gpus_of(p.name) * p.usd_per_gpu_hour for p in pools)
        assert sum(here.rented(p) * p.usd_per_unit_hour for p in pools) == pytest.approx(paid)
        assert paid <= budget + 1e-9
        assert [here.rented(p) for p in pools] == [here.gpus_of(p.name) for p in pools]
