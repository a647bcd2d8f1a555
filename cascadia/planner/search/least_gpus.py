"""Estimate of the GPUs that would sustain a routing at the bar, latency aside: where to begin to ask for a
plan.
"""

import sys

import numpy as np
import pulp
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.allocation.highs import solve
from cascadia.planner.allocation.knapsack import EPS, cover
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.reference_tables import References

Floats = NDArray[np.float64]

MOST_COVERED, MOST_RELAXED = 200, 24
"""Routings looked at, evenly spread: on one pool by covering, on several by linear relaxation."""


def gpus_wanted(search: Search, references: References, pool: Pool, times: int) -> float:
    """GPUs of `pool` (up to `times` as many as it has), the other pools as they are; infinite: more than that."""
    several = len(search.problem.cluster.pools) > 1
    routings = np.flatnonzero(allowed(search))
    most = MOST_RELAXED if several else MOST_COVERED
    if len(routings) > most:
        routings = routings[np.unique(np.linspace(0, len(routings) - 1, most).astype(int))]
    covers: dict[int, Floats] = {}
    wanted = [np.inf]
    for k in routings.tolist():
        stages = search.on_gpus(k)
        judged = search.self_hosted_judge and search.asks(k)
        needs = [references.one(s, k) for s in [*stages, *([JUDGE] if judged else [])]]
        wanted.append(
            _relaxed(search, needs, pool, times) if several else _covered(needs, times * pool.gpus, covers)
        )
    return min(wanted)


def _covered(needs: list[tuple[Demand, float]], most: int, covers: dict[int, Floats]) -> float:
    total = 0.0
    for demand, need in needs:
        if id(demand) not in covers:
            gpus = [shape.gpus for shape in demand.shapes]
            covers[id(demand)] = cover(gpus, demand.table.shares(sys.float_info.max), most).share
        enough = np.flatnonzero(covers[id(demand)] >= need - EPS)
        total += float(enough[0]) if len(enough) else np.inf
    return total


def _relaxed(search: Search, needs: list[tuple[Demand, float]], pool: Pool, times: int) -> float:
    """Minimise the pool's GPUs, fractions of replicas allowed; every other pool gives at most what it has."""
    program = pulp.LpProblem("least_gpus", pulp.LpMinimize)
    spent: dict[str, list[pulp.LpVariable]] = {p.name: [] for p in search.problem.cluster.pools}
    covering = []
    for at, (demand, need) in enumerate(needs):
        shares = demand.table.shares(sys.float_info.max).tolist()
        carried = []
        for name, gpus in spent.items():
            own = [a / s.gpus for s, a in zip(demand.shapes, shares, strict=True) if s.pool == name and a > 0]
            if own:
                gpus.append(program.add_variable(f"gpus_{at}_{name}", 0))
                carried.append(max(own) * gpus[-1])
        if not carried:
            return np.inf
        covering.append(pulp.lpSum(carried) >= need)
    program += pulp.lpSum(spent[pool.name])
    for constraint in covering:
        program += constraint
    for p in search.problem.cluster.pools:
        program += pulp.lpSum(spent[p.name]) <= p.gpus * (times if p.name == pool.name else 1)
    found = solve(program, 10.0).found
    return float(pulp.value(program.objective)) if found else np.inf
