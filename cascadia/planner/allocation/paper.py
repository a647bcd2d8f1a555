"""Cascadia's own integer program, section 3.2: one-hot choice of a GPU count per model type.

Sets        i: model types of the cascade, f = 0..N: GPU counts
Given       l[i,f]: latency of type i on f GPUs under its best parallelism (from the stage tables)
Variables   x[i,f] in {0,1}, L >= 0

    minimise    L
    subject to  sum_f x[i,f] = 1                          for all i                  (i)
                sum_i sum_f f x[i,f] = N                                             (ii)
                L >= sum_f l[i,f] x[i,f]                  for all i                  (iii)
                x[i,f] = 0                                where f GPUs cannot hold or sustain type i

The paper knows one kind of GPU, so this form takes a single pool. The judge, if it takes GPUs, is one more type,
whose quantile J is added to (iii) of every gated type. l[i,f] never grows with f, because a deployment may leave
GPUs of its share idle; hence (ii) costs nothing.
"""

from collections.abc import Sequence

import numpy as np
import pulp
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import BadInput
from cascadia.planner.allocation.demand import JUDGE, Allocation, Demand, Replicas
from cascadia.planner.allocation.highs import solve_by, whole
from cascadia.planner.allocation.knapsack import EPS, cover, mix

Floats = NDArray[np.float64]


def allocate_paper(
    demands: Sequence[Demand], cluster: Cluster, *, verdict_s: float = 0.0, deadline: Deadline | None = None
) -> Allocation | None:
    """The one-hot program; None if infeasible. Raises `BadInput` for more than one pool."""
    if len(cluster.pools) != 1:
        raise BadInput(
            "--formulation paper",
            f"the paper's program takes one pool of equal GPUs, the cluster has {len(cluster.pools)}",
            "use --formulation columns",
        )
    total = cluster.gpus
    latency = {d.stage: latency_by_gpus(d, total) for d in demands}
    counts = {d.stage: np.flatnonzero(np.isfinite(latency[d.stage])).tolist() for d in demands}
    if not all(counts.values()):
        return None
    program = pulp.LpProblem("paper", pulp.LpMinimize)
    bound = program.add_variable("L", 0)
    x = {
        (d.stage, f): program.add_variable(f"x{at:03}_{f:05}", cat=pulp.LpBinary)
        for at, d in enumerate(demands)
        for f in counts[d.stage]
    }
    quantile = {i: pulp.lpSum(float(latency[i][f]) * x[i, f] for f in mine) for i, mine in counts.items()}
    program += bound
    for d in demands:
        program += pulp.lpSum(x[d.stage, f] for f in counts[d.stage]) == 1  # (i)
        if d.stage != JUDGE:
            verdict = quantile.get(JUDGE, verdict_s) if d.gated else 0
            program += bound >= quantile[d.stage] + verdict  # (iii)
        elif len(demands) == 1:
            program += bound >= quantile[JUDGE]  # all stages are elsewhere
    program += pulp.lpSum(f * column for (_, f), column in x.items()) == total  # (ii)
    solved = solve_by(program, deadline or Deadline())
    if not solved.found:
        return None
    chosen = {i: next(f for f in mine if whole(x[i, f])) for i, mine in counts.items()}
    judge_s = float(latency[JUDGE][chosen[JUDGE]]) if JUDGE in chosen else verdict_s
    stages = [d for d in demands if d.stage != JUDGE]
    reached = max(
        (float(latency[d.stage][chosen[d.stage]]) + (judge_s if d.gated else 0.0) for d in stages),
        default=judge_s,
    )
    replicas = {d.stage: _replicas(d, chosen[d.stage], total) for d in demands}
    return Allocation(replicas, reached, reached if solved.proven else _unproven(solved.bound, reached))


def _unproven(bound_s: float, reached_s: float) -> float:
    """A solver that gave up has proven no more than its dual bound, and never that nothing is better."""
    return float(np.clip(bound_s, 0.0, np.nextafter(reached_s, 0.0)))


def latency_by_gpus(demand: Demand, most: int) -> Floats:
    """l[f], f = 0..most: the least quantile bound that some mix of shapes on at most f GPUs keeps."""
    latency = np.full(most + 1, np.inf)
    gpus = [shape.gpus for shape in demand.shapes]
    for bound_s in demand.table.bounds_s[::-1].tolist():
        found = cover(gpus, demand.table.shares(bound_s + EPS), most, enough=1.0)
        latency[found.share >= 1.0 - EPS] = bound_s
    return latency


def _replicas(demand: Demand, f: int, most: int) -> tuple[Replicas, ...]:
    """The mix behind l[f]."""
    bound_s = float(latency_by_gpus(demand, most)[f])
    gpus = [shape.gpus for shape in demand.shapes]
    found = cover(gpus, demand.table.shares(bound_s + EPS), most, enough=1.0)
    least = int(np.flatnonzero(found.share >= 1.0 - EPS)[0])
    level = demand.table.best_level(bound_s + EPS)
    return tuple(
        Replicas(demand.shapes[s], count, int(demand.table.levels[level[s]]))
        for s, count in sorted(mix(found, gpus, least).items())
    )
