"""Allocation of GPUs to replicas, as a sequence of small integer programs (DESIGN section 5.4).

Sets        d: demands (deployed stages and the judge), s: shapes of d, p: pools, t: group sizes
Given       q[d,s,k]: latency quantile of shape s at load level k (a replica takes 1/k of d's requests)
Variables   n[d,s]: replicas
For a bound L, only the largest admissible share matters: a[d,s](L) = max {1/k : q[d,s,k] <= L} (for a gated
stage: q + J <= L, with J the judge's own quantile), and L is feasible iff the integer program

    minimise    sum g[s] n[d,s]                                                  (GPUs; $/h for goal cost)
    subject to  sum_s a[d,s](L) n[d,s] >= 1               for all d              (covering)
                sum w[s,t] n[d,s] <= W[p,t]               for all p, t           (budget and node packing)

has a solution. The least feasible L is found by bisection over the finite set of q values, so that "optimal"
means: L is feasible, and the next smaller value was proven infeasible. Cascadia's one-hot program over GPU
counts is in `allocation_paper.py`; both agree with enumeration where that finishes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.planner.demand import JUDGE, Allocation, Demand, Replicas
from cascadia.planner.knapsack import least_gpus, least_index
from cascadia.planner.milp import Milp, MilpResult
from cascadia.planner.packing import packing_rows, packs_perfectly

Floats = NDArray[np.float64]

EPS = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """`time_limit_s` is for each integer program; `gpus` (if set) caps all pools together."""

    time_limit_s: float = 10.0
    gpus: int | None = None
    minimise: Literal["gpus", "usd"] = "gpus"


LIMITS = Limits()


def allocate(
    demands: Sequence[Demand],
    cluster: Cluster,
    *,
    verdict_s: float = 0.0,
    limits: Limits = LIMITS,
    prove: bool = True,
) -> Allocation | None:
    """The allocation with the least largest-stage latency, then the fewest GPUs; None if nothing is stable.

    `verdict_s` is the quantile of a judge that takes no GPU; a self-hosted one is among the demands. Without
    `prove`, one integer program is solved at the bound that the covering problem names, where it can name one
    (one pool that packs perfectly), and nothing is proven of smaller bounds.
    """
    if not prove and one_perfect_pool(cluster):
        return _at_hint(demands, cluster, verdict_s, limits)
    best: Allocation | None = None
    bound = np.inf
    for judge_s in _judge_latencies(demands, cluster, verdict_s):
        found = _bisect(demands, cluster, judge_s, limits, best.latency_s if best else np.inf)
        bound = min(bound, found.bound_s)
        if found.allocation and (best is None or _key(found.allocation) < _key(best)):
            best = found.allocation
    if best is None:
        return None
    return Allocation(best.replicas, best.latency_s, min(bound, best.latency_s))


def one_perfect_pool(cluster: Cluster) -> bool:
    return len(cluster.pools) == 1 and packs_perfectly(cluster.pools[0])


def _at_hint(
    demands: Sequence[Demand], cluster: Cluster, verdict_s: float, limits: Limits
) -> Allocation | None:
    hints = []
    for judge_s in _judge_latencies(demands, cluster, verdict_s):
        values = _bounds(demands, judge_s)
        at = least_index(demands, cluster.gpus, judge_s, values)
        if at < len(values):
            hints.append((float(values[at]), judge_s))
    if not hints:
        return None
    bound_s, judge_s = min(hints)
    result = _solve(demands, cluster, bound_s, judge_s, limits)
    if result.values is None:
        return None
    found = _allocation(demands, result, bound_s, judge_s)
    return Allocation(found.replicas, found.latency_s, 0.0)


def fewest(
    demands: Sequence[Demand], cluster: Cluster, *, bound_s: float, judge_s: float, limits: Limits = LIMITS
) -> Allocation | None:
    """The cheapest allocation whose stage latencies keep within `bound_s`; None where there is none."""
    result = _solve(demands, cluster, bound_s, judge_s, limits)
    return _allocation(demands, result, bound_s, judge_s) if result.values is not None else None


def _key(allocation: Allocation) -> tuple[float, int]:
    return allocation.latency_s, allocation.gpus


def _judge_latencies(demands: Sequence[Demand], cluster: Cluster, verdict_s: float) -> Sequence[float]:
    """The values of the verdict's quantile that are worth trying, ascending.

    On one pool whose nodes pack perfectly only the judge's number of GPUs matters to the stages: for each number
    the lowest quantile is enough.
    """
    judge = next((d for d in demands if d.stage == JUDGE), None)
    if judge is None:
        return [verdict_s]
    values = [float(q) for q in judge.table.bounds_s]
    if not one_perfect_pool(cluster):
        return values
    by_gpus: dict[int, float] = {}
    for value in values:
        gpus = least_gpus(judge, value, cluster.gpus)
        if gpus is not None:
            by_gpus.setdefault(gpus, value)
    return sorted(by_gpus.values())


@dataclass(frozen=True, slots=True)
class _Found:
    allocation: Allocation | None
    bound_s: float


def _bisect(
    demands: Sequence[Demand], cluster: Cluster, judge_s: float, limits: Limits, cutoff_s: float
) -> _Found:
    """Least feasible bound with verdicts within `judge_s`; `bound_s` is proven unbeatable (given `judge_s`)."""
    values = _bounds(demands, judge_s)
    values = values[values <= cutoff_s]
    low, high = -1, len(values)  # values[low] is infeasible, values[high] feasible
    best: Allocation | None = None
    proven = -1
    probes = _first_probes(demands, cluster, judge_s, values)
    while high - low > 1:
        at = next((p for p in probes if low < p < high), (low + high) // 2)
        result = _solve(demands, cluster, float(values[at]), judge_s, limits)
        if result.values is not None:
            best, high = _allocation(demands, result, float(values[at]), judge_s), at
        else:
            low = at
            proven = at if result.proven else proven
    # Every value up to `proven` is infeasible; the next one is the least that could hold.
    bound_s = float(values[proven + 1]) if proven + 1 < len(values) else np.inf
    return _Found(best, bound_s)


def _first_probes(
    demands: Sequence[Demand], cluster: Cluster, judge_s: float, values: Floats
) -> tuple[int, ...]:
    """Where to look first: on one perfectly packing pool the covering problem tells the answer beforehand.

    Whatever it tells, the integer program has the last word: it must solve at the hint and fail just below.
    """
    if not one_perfect_pool(cluster):
        return (len(values) - 1,)
    hint = least_index(demands, cluster.gpus, judge_s, values)
    return (hint, hint - 1)


def _bounds(demands: Sequence[Demand], judge_s: float) -> Floats:
    stages = [d for d in demands if d.stage != JUDGE]
    return np.unique(np.concatenate([d.table.bounds_s + (judge_s if d.gated else 0.0) for d in stages]))


def admissible_s(demand: Demand, bound_s: float, judge_s: float) -> float:
    """How long a replica of `demand` may take at the quantile so that the stage keeps within `bound_s`."""
    if demand.stage == JUDGE:
        return judge_s
    return bound_s - judge_s if demand.gated else bound_s


def _solve(
    demands: Sequence[Demand], cluster: Cluster, bound_s: float, judge_s: float, limits: Limits
) -> MilpResult:
    columns = [(d, s) for d in demands for s in range(len(d.shapes))]
    shares = np.concatenate([d.table.shares(admissible_s(d, bound_s, judge_s) + EPS) for d in demands])
    shapes = [d.shapes[s] for d, s in columns]
    milp = Milp()
    for shape, share in zip(shapes, shares, strict=True):
        cost = shape.gpus if limits.minimise == "gpus" else shape.usd_per_hour
        milp.integer(cost=float(cost), upper=cluster.pool(shape.pool).gpus // shape.gpus if share > 0 else 0)
    for demand in demands:  # covering
        row = [(j, shares[j]) for j, (d, _) in enumerate(columns) if d is demand and shares[j] > 0]
        if not row:
            return MilpResult(None, proven=True)
        milp.at_least(1.0 - EPS, row)
    for pool in cluster.pools:  # budget and packing
        for weights, limit in packing_rows(pool, shapes):
            milp.at_most(float(limit), [(j, float(w)) for j, w in enumerate(weights) if w])
    if limits.gpus is not None:
        milp.at_most(float(limits.gpus), [(j, float(s.gpus)) for j, s in enumerate(shapes)])
    return milp.solve(limits.time_limit_s)


def _allocation(demands: Sequence[Demand], result: MilpResult, bound_s: float, judge_s: float) -> Allocation:
    assert result.values is not None
    counts = iter(result.values)
    replicas: dict[int, tuple[Replicas, ...]] = {}
    reached = 0.0
    for demand in demands:
        levels = demand.table.best_level(admissible_s(demand, bound_s, judge_s) + EPS)
        taken = [(s, count) for s, count in enumerate(itertools.islice(counts, len(demand.shapes))) if count]
        replicas[demand.stage] = tuple(
            Replicas(demand.shapes[s], count, int(demand.table.levels[levels[s]])) for s, count in taken
        )
        slowest = max((float(demand.table.latency_s[s, levels[s]]) for s, _ in taken), default=0.0)
        if demand.stage != JUDGE:
            reached = max(reached, slowest + (judge_s if demand.gated else 0.0))
    return Allocation(replicas, reached, reached)
