"""The integer programs, the special-purpose solver and enumeration find one and the same optimum."""

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import BadInput
from cascadia.planner.allocation.columns import allocate
from cascadia.planner.allocation.demand import JUDGE, Allocation, Demand
from cascadia.planner.allocation.knapsack import least_gpus, least_latency
from cascadia.planner.allocation.paper import allocate_paper, latency_by_gpus
from cascadia.planner.tables.packing import fits, packs_perfectly
from tests.unit.planner.enumeration import best_by_enumeration
from tests.unit.planner.instances import demand, pool, random_instance, shape

SINGLE, SEVERAL = range(60), range(20)


def holds(found: Allocation, demands: list[Demand], cluster: Cluster, verdict_s: float) -> bool:
    """Do the replicas lie on the nodes, carry all requests, and keep the latency that is claimed?"""
    laid = all(
        fits(p, [(r.shape, r.count) for m in found.replicas.values() for r in m]) for p in cluster.pools
    )
    carried = all(sum(r.count / r.level for r in found.replicas[d.stage]) >= 1 - 1e-9 for d in demands)
    took = {
        d.stage: max(
            float(d.table.latency_s[d.shapes.index(r.shape), int(r.level) - 1])
            for r in found.replicas[d.stage]
        )
        for d in demands
    }
    judge_s = took.pop(JUDGE, verdict_s)
    gated = {d.stage for d in demands if d.gated}
    latency = max(t + (judge_s if s in gated else 0.0) for s, t in took.items())
    return laid and carried and latency == found.latency_s


@pytest.mark.long(in_ci=12)
@pytest.mark.parametrize("seed", SINGLE)
def test_the_program_is_optimal_in_latency_then_in_gpus(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed)
    best = best_by_enumeration(demands, cluster, verdict_s)
    found = allocate(demands, cluster, verdict_s=verdict_s)
    assert (found and (found.latency_s, found.gpus)) == best
    if found is not None:
        assert found.proven
        assert holds(found, demands, cluster, verdict_s)


@pytest.mark.long(in_ci=4)
@pytest.mark.parametrize("seed", SEVERAL)
def test_the_program_is_optimal_over_several_pools(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed, pools=2)
    best = best_by_enumeration(demands, cluster, verdict_s)
    found = allocate(demands, cluster, verdict_s=verdict_s)
    assert (found and (found.latency_s, found.gpus)) == best
    if found is not None:
        assert holds(found, demands, cluster, verdict_s)


@pytest.mark.long(in_ci=12)
@pytest.mark.parametrize("seed", SINGLE)
def test_the_special_purpose_solver_agrees_where_only_the_sum_of_gpus_matters(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed)
    if not packs_perfectly(cluster.pools[0]):
        cluster = Cluster((pool(1, 8),))
    found = allocate(demands, cluster, verdict_s=verdict_s)
    assert least_latency(demands, cluster.gpus, verdict_s) == (found and found.latency_s)


@pytest.mark.long(in_ci=12)
@pytest.mark.parametrize("seed", SINGLE)
def test_the_papers_program_agrees_where_only_the_sum_of_gpus_matters(seed: int) -> None:
    demands, cluster, verdict_s = random_instance(seed)
    if not packs_perfectly(cluster.pools[0]):
        cluster = Cluster((pool(1, 8),))
    found = allocate(demands, cluster, verdict_s=verdict_s)
    paper = allocate_paper(demands, cluster, verdict_s=verdict_s)
    assert (paper and paper.latency_s) == (found and found.latency_s)
    if paper is not None:
        assert paper.proven
        assert holds(paper, demands, cluster, verdict_s)


@pytest.mark.long
def test_the_instances_are_neither_all_feasible_nor_all_on_one_kind_of_node() -> None:
    drawn = [random_instance(seed) for seed in SINGLE]
    none = [allocate(d, c, verdict_s=v) is None for d, c, v in drawn]
    judged = [any(x.stage == JUDGE for x in d) for d, _, _ in drawn]
    stages = {len([x for x in d if x.stage != JUDGE]) for d, _, _ in drawn}
    assert 5 < sum(none) < len(none) - 30
    assert 15 < sum(judged) < len(judged) - 15
    assert stages == {2, 3}
    assert {(c.pools[0].nodes, c.pools[0].gpus_per_node) for _, c, _ in drawn} == {
        (1, 6),
        (1, 8),
        (2, 4),
        (2, 3),
    }


FAST = [[4.0, 2.0, 1.5, 1.25]]


def test_a_gated_stage_gets_what_the_verdict_leaves_of_the_bound() -> None:
    stages = [demand(0, [shape(1)], FAST, gated=True), demand(1, [shape(1)], FAST, gated=False)]
    found = allocate(stages, Cluster((pool(1, 4),)), verdict_s=0.75)
    assert found is not None
    assert found.latency_s == 2.75
    assert [found.replicas[s][0].count for s in (0, 1)] == [2, 2]


def test_the_judge_gets_gpus_where_a_slow_verdict_would_cost_more() -> None:
    stages = [demand(0, [shape(1)], FAST, gated=True), demand(1, [shape(1)], FAST, gated=False)]
    judge = demand(JUDGE, [shape(1)], [[9.0, 0.5]], gated=False)
    found = allocate([*stages, judge], Cluster((pool(1, 8),)))
    assert found is not None
    assert found.latency_s == 1.5 + 0.5
    assert {s: m[0].count for s, m in found.replicas.items()} == {0: 3, 1: 2, JUDGE: 2}


def test_a_judge_whose_stages_are_all_elsewhere_is_as_fast_as_the_gpus_allow() -> None:
    """It was once no program at all."""
    judge = demand(JUDGE, [shape(1)], [[9.0, 0.75, 0.5, 0.25]], gated=False)
    cluster = Cluster((pool(1, 3),))
    unproven, paper = allocate([judge], cluster, prove=False), allocate_paper([judge], cluster)
    for found in (allocate([judge], cluster), unproven, paper):
        assert found is not None
        assert (found.latency_s, found.replicas[JUDGE][0].count) == (0.5, 3)
    assert least_latency([judge], 3, 0.0) == 0.5


def test_no_more_gpus_than_the_least_bound_needs() -> None:
    stages = [
        demand(0, [shape(1)], [[1.0, 1.0]], gated=False),
        demand(1, [shape(2)], [[8.0, 4.0]], gated=False),
    ]
    found = allocate(stages, Cluster((pool(2, 8),)))
    assert found is not None
    assert (found.latency_s, found.gpus) == (4.0, 1 + 4)


def test_what_no_node_holds_is_not_allocated() -> None:
    stages = [demand(s, [shape(4)], [[1.0]], gated=False) for s in range(3)]
    assert allocate(stages, Cluster((pool(2, 6),))) is None
    assert allocate(stages, Cluster((pool(3, 6),))) is not None


def test_what_is_unstable_at_every_level_is_not_allocated() -> None:
    stage = demand(0, [shape(1)], [[np.inf, np.inf]], gated=False)
    cluster = Cluster((pool(1, 4),))
    assert allocate([stage], cluster) is None
    assert allocate_paper([stage], cluster) is None
    assert least_latency([stage], 4, 0.0) is None


def test_latency_by_gpus_never_grows_and_is_what_enumeration_of_bounds_finds() -> None:
    for seed in range(20):
        demands, _, _ = random_instance(seed)
        for d in demands:
            found = latency_by_gpus(d, 8)
            assert (np.diff(found[np.isfinite(found)]) <= 0).all()
            for f in range(9):
                bounds = [b for b in d.table.bounds_s.tolist() if (least_gpus(d, b, 8) or 99) <= f]
                assert found[f] == min(bounds, default=np.inf)


def test_the_papers_program_takes_one_pool() -> None:
    demands, cluster, verdict_s = random_instance(0, pools=2)
    with pytest.raises(BadInput, match="use --formulation columns"):
        allocate_paper(demands, cluster, verdict_s=verdict_s)
