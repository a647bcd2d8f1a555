"""The cost of renting at other rates, and what a dollar buys on each kind of GPU: for the report of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pulp

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.columns import EPS
from cascadia.planner.allocation.demand import Demand
from cascadia.planner.allocation.highs import solve
from cascadia.planner.allocation.rent import rent_of
from cascadia.planner.plan import PlanResult
from cascadia.planner.pool.worth import Worth, worths
from cascadia.planner.tables.packing import packing_rows

POINTS, LEAST, MOST = 12, 0.25, 4.0
"""So many multiples of the plan's rate, from the least to the most."""

TIME_LIMIT_S = 2.0
UNLIMITED_USD = 1e9


@dataclass(frozen=True, slots=True)
class RateCost:
    """The least that carries a rate costs an hour, latency aside, nodes whole where these are rented whole."""

    rate_rps: float
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Renting:
    worths: tuple[Worth, ...]
    costs: tuple[RateCost, ...]


def renting(result: PlanResult) -> Renting | None:
    """Choices of what to rent; None where there is nothing to choose: one kind of GPU, and no budget."""
    search, routing = result.search, result.chosen.deployment.routing
    cluster = search.problem.cluster
    demands = search.demands(routing)
    if not demands or (len(cluster.pools) < 2 and cluster.budget_usd_per_hour is None):
        return None
    rate = search.problem.workload.rate_rps
    costs = [
        RateCost(float(factor) * rate, usd)
        for factor in np.geomspace(LEAST, MOST, POINTS)
        if (usd := least_usd(demands, cluster, float(factor))) is not None
    ]
    return Renting(tuple(worths(search, routing)), tuple(costs))


def least_usd(demands: Sequence[Demand], cluster: Cluster, factor: float) -> float | None:
    """Least rent an hour of what sustains `factor` times the demands' work; None where the pools do not hold it."""
    program = pulp.LpProblem("rent", pulp.LpMinimize)
    shapes = [shape for d in demands for shape in d.shapes]
    most = {pool.name: pool.gpus for pool in cluster.pools}
    n = [
        program.add_variable(f"n{j:05}", 0, most[shape.pool] // shape.gpus, pulp.LpInteger)
        for j, shape in enumerate(shapes)
    ]
    rent = rent_of(replace(cluster, budget_usd_per_hour=UNLIMITED_USD), shapes)
    assert rent is not None
    program += pulp.lpDot(rent.usd, rent.add(program, n))
    columns = iter(n)
    for d in demands:
        shares = (1.0 / np.maximum(d.table.saturated, EPS)).tolist()
        program += pulp.lpDot(shares, list(islice(columns, len(shares)))) >= factor * (1 - EPS)
    for pool in cluster.pools:
        for weights, limit in packing_rows(pool, shapes):
            program += pulp.lpDot(weights, n) <= limit
    if not solve(program, TIME_LIMIT_S).found:
        return None
    return float(pulp.value(program.objective))
