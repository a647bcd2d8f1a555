"""Plans within a budget: what is rented, what a larger one is worth, and one that is too small."""

import re
from dataclasses import replace

import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Goal, Objective
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.plan import PlanResult, plan, routings_of
from cascadia.planner.pool.affordable import affordable, within_budget
from cascadia.planner.search.context import find_shapes
from cascadia.planner.stability.repeats import at_rate
from tests.benchmarks.supersets import FEW
from tests.unit.planner.problems import LARGE, MEDIUM, SMALL, problem, traffic

DEAR = Pool("dear", "h100-sxm", 2, 2, 3.0)
CHEAP = Pool("cheap", "l40s", 3, 2, 1.0)


def offered(budget_usd: float | None, *pools: Pool) -> Problem:
    made = problem((SMALL, MEDIUM), pools=pools or (DEAR, CHEAP), trace=traffic(120, 30.0))
    return replace(made, cluster=replace(made.cluster, budget_usd_per_hour=budget_usd))


def rent_usd(result: PlanResult) -> float:
    return sum((pool.rented or 0) * pool.usd_per_node_hour for pool in result.plan.cluster.pools)


@pytest.mark.long
def test_a_plan_rents_whole_nodes_within_its_budget_and_says_so() -> None:
    result = plan(offered(6.0), effort=FEW)
    assert 0 < rent_usd(result) <= 6.0
    assert [note for note in result.notes if note.startswith("to be rented: ")]
    assert parse_plan(plan_json(result.plan), "plan").cluster == result.plan.cluster


def test_pools_are_cut_to_what_the_budget_buys_of_each_alone() -> None:
    pools = affordable(offered(5.0)).cluster.pools
    assert [(pool.name, pool.nodes) for pool in pools] == [("cheap", 2)]
    assert affordable(offered(None)).cluster.pools == (DEAR, CHEAP)


def test_a_budget_below_the_cheapest_nodes_names_their_price() -> None:
    with pytest.raises(Infeasible, match=r"budget_usd_per_hour 1.5 does not buy.*\$2\.00/h") as refused:
        plan(offered(1.5))
    assert refused.value.exit_code == 3


@pytest.mark.long
@pytest.mark.parametrize("budget_usd", [5.99, 3.0])
def test_where_a_bound_on_latency_binds_a_budget_that_would_do_is_named_too(budget_usd: float) -> None:
    """A cent below the price it was once said that no GPUs are fast enough."""

    def within(usd: float) -> Problem:
        return replace(offered(usd), objective=Objective("cost", 0.95, 45.0, 1.5))

    with pytest.raises(Infeasible, match=r"latency_max_s 1\.5") as refused:
        plan(within(budget_usd), effort=FEW)
    told = re.search(r"; a budget of \$([0-9.]+)/h would do$", refused.value.nearest)
    assert told is not None
    assert plan(within(float(told.group(1))), effort=FEW).plan.predicted.e2e.p95_s <= 1.5


def of_which_the_larger_needs_two_gpus(budget_usd: float, quality_min: float) -> Problem:
    single = Pool("single", "l40s", 4, 1, 1.0)
    made = problem((SMALL, LARGE), pools=(DEAR, single), trace=traffic(60, 3.0), quality_min=quality_min)
    return replace(made, cluster=replace(made.cluster, budget_usd_per_hour=budget_usd))


def test_a_stage_that_the_budget_does_not_hold_is_not_deployed_where_the_bar_is_reached_without() -> None:
    made = affordable(of_which_the_larger_needs_two_gpus(1.0, 30.0))
    every = routings_of(made)[0]
    held = within_budget(made, every)
    assert (held.deployed == [True, False]).all()
    assert 0 < len(held) == int((~every.deployed[:, 1]).sum())
    assert all(find_shapes(made).values())


def test_a_stage_that_the_bar_needs_and_the_budget_does_not_hold_is_named_with_its_price() -> None:
    with pytest.raises(Infeasible, match=r"does not buy nodes that hold s1; the.*\$2\.00/h"):
        plan(of_which_the_larger_needs_two_gpus(1.0, 52.0))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_more_dollars_or_a_pool_more_never_make_a_whole_plan_worse(seed: int) -> None:
    """Of `minimize: latency`, at any price."""

    def reached_s(budget_usd: float, *pools: Pool) -> float:
        made = problem((SMALL, MEDIUM), pools=pools, trace=traffic(120, 30.0, seed))
        made = replace(
            made,
            cluster=replace(made.cluster, budget_usd_per_hour=budget_usd),
            objective=replace(made.objective, within=0.0),
        )
        try:
            return plan(made, effort=FEW).plan.predicted.objective_s
        except (BadInput, Infeasible):
            return float("inf")

    both = [reached_s(budget, DEAR, CHEAP) for budget in (6.0, 18.0)]
    assert both == sorted(both, reverse=True)
    assert both[-1] <= min(reached_s(18.0, DEAR), reached_s(18.0, CHEAP))


@pytest.mark.long
@pytest.mark.parametrize("goal", ["quality", "cost"])
def test_a_budget_that_buys_too_little_for_the_rate_is_what_a_refusal_names(goal: Goal) -> None:
    """Not GPUs that are there to be rented; and for the price that it names there is a plan."""
    faster = at_rate(offered(2.0), 6.0)
    faster = replace(faster, objective=replace(faster.objective, goal=goal))
    with pytest.raises(Infeasible, match="budget_usd_per_hour 2 buys too few GPUs for") as refused:
        plan(faster, effort=FEW)
    told = re.fullmatch(r"\$([0-9.]+)/h would do", refused.value.nearest)
    assert told is not None
    enough_usd = float(told[1])
    assert enough_usd > 2.0
    richer = replace(faster, cluster=replace(faster.cluster, budget_usd_per_hour=enough_usd))
    assert 2.0 < rent_usd(plan(richer, effort=FEW)) <= enough_usd


@pytest.mark.long
def test_more_than_all_that_can_be_rented_carries_is_not_put_down_to_the_budget() -> None:
    with pytest.raises(Infeasible) as refused:
        plan(at_rate(offered(17.9), 1e4), effort=FEW)
    assert "budget" not in str(refused.value)
