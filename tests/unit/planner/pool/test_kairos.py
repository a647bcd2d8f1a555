"""Kairos' estimate, pick and search on types made by hand and drawn at random."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan
from cascadia.planner.plan import plan
from cascadia.planner.pool.kairos import Fluid, Types, configurations, estimates_rps, kairos_plus, picked
from cascadia.planner.pool.kairos_pick import on_picked
from tests.benchmarks.supersets import FEW
from tests.unit.planner.problems import MEDIUM, problem, rising_table, traffic


def drawn(seed: int, auxiliary: int) -> Types:
    """Linear in size; the base is the fastest, and serves all in time."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, 9, dtype=float)
    slope = np.concatenate([[1.0], rng.uniform(1.5, 6.0, auxiliary)])
    start = np.concatenate([[rng.uniform(0.5, 4.0)], rng.uniform(0.0, 2.0, auxiliary)])
    seconds = start[:, None] + slope[:, None] * sizes
    shares = rng.dirichlet(np.ones(8))
    return Types(seconds, shares, seconds <= seconds[0, -1] * 1.02)


def test_the_estimate_of_the_paper_by_hand() -> None:
    """Fig. 6: one base and one auxiliary type, half of the queries small."""
    types = Types(
        np.array([[1.0, 4.0], [2.0, 9.0]]), np.array([0.5, 0.5]), np.array([[True, True], [True, False]])
    )
    one = estimates_rps(types, np.array([[1, 4], [1, 0], [1, 1]]))
    # The base is the bottleneck: its 1/4 a second of large queries is half of all (Eq. 9).
    assert one[0] == pytest.approx(0.25 / 0.5)
    assert one[1] == pytest.approx(1 / 2.5)
    # The auxiliary type is full with 1/2 a second; the base has no slack beyond the like number of large ones (Eq. 11).
    served = 0.5 / 0.5
    slack = (0.25 - 0.5) / 0.25
    assert one[2] == pytest.approx(0.25 / 0.5 if slack <= 0 else served + slack * 0.4)


@pytest.mark.parametrize("seed", range(6))
def test_with_one_auxiliary_type_that_serves_one_size_the_estimate_is_the_linear_programs_bound(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    seconds = np.array([[1.0, rng.uniform(2, 9)], [rng.uniform(1, 4), 99.0]])
    types = Types(seconds, rng.dirichlet(np.ones(2)), np.array([[True, True], [True, False]]))
    fluid = Fluid(types)
    configs = configurations(np.array([3.0, 1.0]), np.array([5, 9]), 12.0)
    for config, estimate in zip(configs, estimates_rps(types, configs), strict=True):
        assert fluid.bound_rps(config) == pytest.approx(estimate)


@pytest.mark.parametrize("auxiliary", [1, 2])
def test_elsewhere_it_is_no_bound(auxiliary: int) -> None:
    below = 0
    for seed in range(60):
        types = drawn(seed, auxiliary)
        config = np.array([[2, *([3] * auxiliary)]])
        below += bool(estimates_rps(types, config)[0] < Fluid(types).bound_rps(config[0]) * (1 - 1e-6))
    assert below > 0


def test_kairos_plus_finds_what_trying_all_finds_where_its_estimates_are_bounds() -> None:
    types = drawn(3, 2)
    configs = configurations(np.array([3.0, 1.0, 0.7]), np.array([5, 9, 9]), 9.0)
    fluid = Fluid(types)
    bounds = np.array([fluid.bound_rps(config) for config in configs])

    def served(config: np.ndarray) -> float:
        return 0.9 * fluid.bound_rps(config)

    found = kairos_plus(configs, bounds, served)
    assert found.rps == pytest.approx(max(served(config) for config in configs))
    assert len(found.order) < len(configs) / 4
    assert len(set(found.order)) == len(found.order)


def test_the_pick_is_the_highest_where_the_highest_agree_on_the_base_else_the_most_central() -> None:
    configs = np.array([[2, 1], [2, 2], [2, 3], [1, 9]])
    assert picked(configs, np.array([3.0, 9.0, 2.0, 1.0])) == 1
    configs = np.array([[9, 0], [1, 5], [1, 4], [2, 4]])
    assert picked(configs, np.array([9.0, 8.0, 7.0, 6.0])) == 3


def test_nodes_are_picked_within_the_budget_for_one_stage() -> None:
    pools = (Pool("dear", "h100-sxm", 3, 1, 3.0), Pool("cheap", "l40s", 6, 1, 1.0))
    made = problem((MEDIUM,), pools=pools, trace=traffic(80, 20.0), table=rising_table(1))
    made = replace(made, cluster=replace(made.cluster, budget_usd_per_hour=6.0))
    cluster = on_picked(made).cluster
    assert 0 < sum(p.nodes * p.usd_per_node_hour for p in cluster.pools) <= 6.0
    with pytest.raises(BadInput, match="for one stage within a budget"):
        on_picked(problem(pools=pools))


@pytest.mark.long
def test_where_the_picked_nodes_carry_too_little_a_budget_is_named_whose_pick_does() -> None:
    """More nodes than the money buys were once counted, and no number of them was enough."""
    pools = (Pool("dear", "h100-sxm", 2, 2, 3.0), Pool("cheap", "l40s", 3, 2, 1.0))
    objective = Objective("cost", 0.95, 30.0, 6.0)
    made = problem((MEDIUM,), pools=pools, trace=traffic(120, 60.0), objective=objective)

    def planned(usd: float) -> Plan:
        cluster = replace(made.cluster, budget_usd_per_hour=usd)
        return plan(replace(made, cluster=cluster), effort=FEW, formulation="kairos").plan

    with pytest.raises(Infeasible, match="budget_usd_per_hour 2 buys too few GPUs") as refused:
        planned(2.0)
    told = re.fullmatch(r"\$([0-9.]+)/h would do", refused.value.nearest)
    assert told is not None
    assert planned(float(told.group(1))).predicted.e2e.p95_s <= 6.0
