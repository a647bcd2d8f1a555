"""Part of a cluster that a budget could rent, before anything is searched for.

A pool has no more nodes than the budget buys of it alone; one of which it buys none is not looked at, nor are all of
many (`screen.py`). A stage that no such nodes hold is not deployed: it keeps the pool that would hold it at the least
price, where nothing is rented, and routings that ask it are dropped. Where no routing is left that reaches the bar, the
budget is too small for any plan, and the price of the cheapest nodes that would do is named.
"""

from dataclasses import replace

import numpy as np

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import CENT
from cascadia.planner.pool.screen import screened
from cascadia.planner.routing.routings import Bools, Routings
from cascadia.planner.search.context import find_shapes
from cascadia.planner.tables.packing import units_needed
from cascadia.planner.tables.shapes import Shape


def affordable(problem: Problem) -> Problem:
    """`problem` on what its budget could rent, beside what is offered; unchanged where it has none. Raises
    `Infeasible`."""
    budget_usd = problem.cluster.budget_usd_per_hour
    if budget_usd is None:
        return problem
    beyond = _beyond(problem)
    stages = [s for s in beyond if s != JUDGE]
    if len(stages) == len(problem.stages):
        raise _too_small(problem, min(stages, key=lambda s: _usd(problem, beyond[s])), beyond)
    held: dict[str, int] = {}
    for shape in beyond.values():
        pool = problem.cluster.pool(shape.pool)
        gpus = units_needed(pool, [(shape, 1)]) * pool.unit_gpus
        held[pool.name] = max(held.get(pool.name, 0), -(-gpus // pool.gpus_per_node))
    bought = (_bought(pool, budget_usd, held.get(pool.name, 0)) for pool in problem.cluster.pools)
    pools = tuple(pool for pool in bought if pool.nodes)
    held_to = replace(
        problem, cluster=replace(problem.cluster, pools=pools), offered=problem.offered or problem.cluster
    )
    return screened(held_to, beyond)


def within_budget(problem: Problem, routings: Routings) -> Routings:
    """Routings whose stages the budget could rent. Raises `Infeasible` where none of them reaches the bar,
    though others do.
    """
    if problem.cluster.budget_usd_per_hour is None or not (beyond := _beyond(problem)):
        return routings
    bar = problem.objective.quality_min or 0.0
    needs = _needs(routings, beyond)
    good = routings.lower >= bar
    held = np.asarray(~needs.any(axis=1))
    if not good.any():
        return routings
    if not (good & held).any():
        prices = np.array([_usd(problem, shape) for shape in beyond.values()])
        dearest = np.where(needs, prices, 0.0)[good]
        least = dearest[dearest.max(axis=1).argmin()]
        raise _too_small(problem, list(beyond)[int(least.argmax())], beyond)
    return routings.take(held)


def _beyond(problem: Problem) -> dict[int, Shape]:
    """The shape that costs least of each stage that costs more than the budget, however it is served."""
    budget_usd = problem.cluster.budget_usd_per_hour
    assert budget_usd is not None
    least = {
        s: min(choices, key=lambda shape: _usd(problem, shape))
        for s, choices in find_shapes(problem, needless_too=True).items()
    }
    return {s: shape for s, shape in least.items() if _usd(problem, shape) > budget_usd + CENT}


def _needs(routings: Routings, beyond: dict[int, Shape]) -> Bools:
    """Tells which of the stages `beyond` the budget each routing asks [routings, stages]."""
    asks = routings.judged(np.arange(len(routings))).any(axis=1)
    return np.stack([asks if s == JUDGE else routings.deployed[:, s] for s in beyond], axis=1)


def _too_small(problem: Problem, stage: int, beyond: dict[int, Shape]) -> Infeasible:
    name = "the judge" if stage == JUDGE else problem.stages[stage].name
    return Infeasible(
        f"cluster.budget_usd_per_hour {problem.cluster.budget_usd_per_hour:g} does not buy nodes that hold {name}",
        f"the cheapest that do cost ${_usd(problem, beyond[stage]):,.2f}/h",
    )


def _usd(problem: Problem, shape: Shape) -> float:
    pool = problem.cluster.pool(shape.pool)
    return units_needed(pool, [(shape, 1)]) * pool.usd_per_unit_hour


def _bought(pool: Pool, budget_usd: float, least: int) -> Pool:
    """The pool with as many nodes as the budget buys, and `least` if that is fewer."""
    price_usd = pool.usd_per_unit_hour
    if price_usd <= 0:
        return pool
    gpus = int((budget_usd + CENT) // price_usd) * pool.unit_gpus
    return replace(pool, nodes=min(pool.nodes, max(least, -(-gpus // pool.gpus_per_node))))
