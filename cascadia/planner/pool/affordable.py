"""Part of a cluster that a budget could rent, before anything is searched for.

A pool has no more nodes than the budget buys of it alone; one of which it buys none is not looked at. Where no pool is
left that holds a model, the budget is too small for any plan, and the price of the cheapest that would do is named.
"""

from dataclasses import replace

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.problem import Problem
from cascadia.planner.deployment.deployment import CENT
from cascadia.planner.search.context import longest_request
from cascadia.planner.tables.packing import nodes_needed
from cascadia.planner.tables.shapes import shapes


def affordable(problem: Problem) -> Problem:
    """`problem` on what its budget could rent; unchanged where it has none. Raises `Infeasible`."""
    budget_usd = problem.cluster.budget_usd_per_hour
    if budget_usd is None:
        return problem
    least_usd = _cheapest_usd(problem)
    if least_usd is not None and least_usd > budget_usd + CENT:
        raise Infeasible(
            f"cluster.budget_usd_per_hour {budget_usd:g} is below the cheapest deployment that holds a stage's model",
            f"that takes whole nodes for ${least_usd:,.2f}/h",
        )
    pools = tuple(
        bought for pool in problem.cluster.pools if (bought := _bought(pool, budget_usd)) is not None
    )
    return replace(problem, cluster=replace(problem.cluster, pools=pools)) if pools else problem


def _bought(pool: Pool, budget_usd: float) -> Pool | None:
    price_usd = pool.usd_per_node_hour
    most = pool.nodes if price_usd <= 0 else min(pool.nodes, int((budget_usd + CENT) // price_usd))
    return replace(pool, nodes=most) if most else None


def _cheapest_usd(problem: Problem) -> float | None:
    """Price of the cheapest nodes that hold one replica of some stage's model; None where none does at any price."""
    prices = []
    for s, stage in enumerate(problem.stages):
        for pool in problem.cluster.pools:
            try:
                found = shapes(
                    stage.name,
                    stage.architecture,
                    stage.config,
                    Cluster((pool,)),
                    longest_request(problem, s),
                )
            except BadInput:
                continue  # it fits no shape of this pool
            prices += [nodes_needed(pool, [(shape, 1)]) * pool.usd_per_node_hour for shape in found]
    return min(prices, default=None)
