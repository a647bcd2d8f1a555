"""Whoever is offered more pools gets no worse a plan."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from cascadia.domain.cluster import Cluster
from cascadia.domain.deadline import Deadline
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import routings_of
from cascadia.planner.refinement.certified import best_certified
from cascadia.planner.refinement.state import Refinement
from cascadia.planner.refinement.supersets import FEW_NODES, best_of_parts, on_few_nodes
from cascadia.planner.search.context import start_search
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.solver import solver
from cascadia_traces.trace import Trace
from tests.benchmarks.supersets import FEW, KINDS, SOME, best_value, drawn, worse
from tests.unit.planner.problems import LARGE, NODE, briefly, problem, traffic

CASES = 2
"""Here; tests/e2e/test_plans_at_length.py goes on."""


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("seed", range(CASES)[::-1])
def test_a_pool_more_never_makes_the_plan_worse(seed: int) -> None:
    assert worse(replace(KINDS["pools"](seed), efforts=(FEW, FEW))) == 0


@pytest.mark.long
def test_nor_where_cheaper_plans_that_are_as_fast_are_looked_for() -> None:
    assert worse(replace(KINDS["pools-fast"](2), efforts=(FEW, FEW))) == 0


def test_a_stage_more_costs_nothing_but_what_it_widens_the_bounds_on_quality() -> None:
    assert worse(KINDS["stages-known"](25)) == 0


@pytest.mark.long
def test_none_of_three_pools_and_no_pair_is_better_than_all() -> None:
    whole = drawn(3, 3)
    all_of_them = best_value(whole, FEW)
    pools = whole.cluster.pools
    for kept in [pools[:1], pools[1:2], pools[2:], pools[:2], pools[1:], (pools[0], pools[2])]:
        assert all_of_them <= best_value(replace(whole, cluster=Cluster(kept)), FEW) + 1e-9


CHEAPLY = Objective("cost", 0.95, 52.0, 9.0)


def offered(nodes: int, trace: Trace | None = None, objective: Objective = CHEAPLY) -> Problem:
    trace = trace or traffic(80, 20.0)
    return problem(trace=trace, pools=(replace(NODE, nodes=nodes),), objective=objective)


@pytest.mark.parametrize(
    ("given", "looked_at"),
    [
        (offered(64), FEW_NODES),
        (offered(FEW_NODES), None),
        (offered(64, traffic(2000, 1000.0)), 16),
        (offered(64, objective=Objective("latency", 0.95, 52.0)), None),
        (offered(64, objective=replace(CHEAPLY, quality_min=100.0)), None),
    ],
)
def test_least_cost_is_sought_among_the_nodes_that_it_may_buy(given: Problem, looked_at: int | None) -> None:
    with ThreadPoolExecutor(1) as threads:
        few = on_few_nodes(start_search(given, routings_of(given)[0], threads))
    assert (few and few.problem.cluster.pools[0].nodes) == looked_at


@pytest.mark.long
def test_nodes_beyond_what_least_cost_buys_change_nothing() -> None:
    """In the same time 800 GPUs had a dearer plan than 192: the cheapest of many replicas was looked for among all."""
    some, many = briefly(offered(2 * FEW_NODES)), briefly(offered(16 * FEW_NODES))
    assert some.fastest.deployment.key == many.fastest.deployment.key
    assert many.plan.cluster.gpus == 16 * FEW_NODES * NODE.gpus_per_node


@pytest.mark.long
def test_in_little_time_the_best_pool_is_searched_once_more_before_several_are() -> None:
    """A plan for that pool alone would have had all the time."""
    given, ticks = drawn(0, 2, requests=60), count()
    said: list[str] = []
    with ThreadPoolExecutor(2) as threads:
        hurried = Deadline(140, clock=lambda: float(next(ticks)))
        search = start_search(given, routings_of(given)[0], threads, hurried)
        best_of_parts(search, partial(solver, formulation="columns"), SOME, said.append)
    alone = [text.split(" alone")[0] for text in said if " alone" in text]
    assert len(alone) == 3
    assert alone[2] in alone[:2]
    assert said.index(f"{alone[2]} alone, once more") > said.index(f"{alone[1]} alone")


def test_a_start_that_holds_is_given_whatever_else_is_refused() -> None:
    p = problem((LARGE,), pools=(NODE,), trace=traffic(60, 20.0), quality_min=0.0)
    with ThreadPoolExecutor(1) as threads:
        search = start_search(p, routings_of(p)[0], threads)
        state = Refinement(search, Simulator.of(p), References.of(search))

        def replicas(count: int) -> Deployment:
            return deployment(0, {0: (Replicas(search.shapes[0][0], count, 1.0),)})

        enough, too_few = replicas(8), replicas(1)
        state.simulate([enough, too_few])
        found = best_certified(state, [], [too_few, enough])
    assert found is not None
    assert found.deployment == enough
    assert found.certificate is not None
    assert found.certificate.holds


def test_a_start_that_is_plainly_too_late_is_asked_for_no_certificate() -> None:
    within = Objective("cost", 0.95, None, 0.01)
    p = problem((LARGE,), pools=(NODE,), trace=traffic(60, 20.0), objective=within)
    with ThreadPoolExecutor(1) as threads:
        search = start_search(p, routings_of(p)[0], threads)
        state = Refinement(search, Simulator.of(p), References.of(search))
        late = deployment(0, {0: (Replicas(search.shapes[0][0], 8, 1.0),)})
        state.simulate([late])
        assert best_certified(state, [], [late]) is None
    assert state.seen[late.key].certificate is None
