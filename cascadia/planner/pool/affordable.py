"""Part of a cluster that a budget could rent, before anything is searched for.

A pool has no more nodes than the budget buys of it alone; one of which it buys none is not looked at, nor are all of
many (`screen.py`). Each stage needs
a shape that it could be served on: where the budget buys none for some stage, it is too small for any plan, and the
price of the cheapest nodes that would do is named.
"""

from dataclasses import replace

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import CENT
from cascadia.planner.pool.screen import screened
from cascadia.planner.search.context import find_shapes
from cascadia.planner.tables.packing import units_needed
from cascadia.planner.tables.shapes import Shape


def affordable(problem: Problem) -> Problem:
    """`problem` on what its budget could rent; unchanged where it has none. Raises `Infeasible`."""
    budget_usd = problem.cluster.budget_usd_per_hour
    if budget_usd is None:
        return problem
    least_usd = {
        s: min(_alone_usd(problem, shape) for shape in choices)
        for s, choices in find_shapes(problem, needless_too=True).items()
    }
    dearest = max(least_usd, key=lambda s: least_usd[s])
    if least_usd[dearest] > budget_usd + CENT:
        name = "the judge" if dearest == JUDGE else problem.stages[dearest].name
        raise Infeasible(
            f"cluster.budget_usd_per_hour {budget_usd:g} does not buy nodes that hold {name}",
            f"the cheapest that do cost ${least_usd[dearest]:,.2f}/h",
        )
    bought = (_bought(pool, budget_usd) for pool in problem.cluster.pools)
    pools = tuple(pool for pool in bought if pool.nodes)
    return screened(replace(problem, cluster=replace(problem.cluster, pools=pools)))


def _alone_usd(problem: Problem, shape: Shape) -> float:
    pool = problem.cluster.pool(shape.pool)
    return units_needed(pool, [(shape, 1)]) * pool.usd_per_unit_hour


def _bought(pool: Pool, budget_usd: float) -> Pool:
    price_usd = pool.usd_per_unit_hour
    if price_usd <= 0:
        return pool
    gpus = int((budget_usd + CENT) // price_usd) * pool.unit_gpus
    return replace(pool, nodes=min(pool.nodes, -(-gpus // pool.gpus_per_node)))
