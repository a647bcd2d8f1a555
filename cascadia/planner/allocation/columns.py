"""Allocation of GPUs to replicas, as a sequence of small integer programs (DESIGN section 5.4).

Sets        d: demands (deployed stages and the judge), s: shapes of d, p: pools, t: group sizes
Given       q[d,s,k]: latency quantile of shape s at load level k (a replica takes 1/k of d's requests)
Variables   n[d,s]: replicas
For a bound L, only the largest admissible share matters: a[d,s](L) = max {1/k : q[d,s,k] <= L} (for a gated
stage: q + J <= L, with J the judge's own quantile), and L is feasible iff the integer program

    minimise    sum g[s] n[d,s]                                                  (GPUs)
    subject to  sum_s a[d,s](L) n[d,s] >= 1               for all d              (covering)
                sum w[s,t] n[d,s] <= W[p,t]               for all p, t           (budget and node packing)

has a solution. Under a budget of B $/h two rows more rent whole nodes, r[p] of pool p at c[p] $/h each:

                sum w[s,t] n[d,s] <= W[p,t]/nodes[p] r[p]  for all p, t,     sum c[p] r[p] <= B

The least feasible L is found by bisection over the finite set of q values, so that "optimal"
means: L is feasible, and the next smaller value was proven infeasible. Cascadia's one-hot program over GPU
counts is in `paper.py`; both agree with enumeration where that finishes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pulp
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.domain.deadline import Deadline
from cascadia.planner.allocation.demand import JUDGE, Allocation, Demand, Replicas
from cascadia.planner.allocation.highs import solve_by, whole
from cascadia.planner.allocation.knapsack import bounds_s, least_gpus, least_index
from cascadia.planner.allocation.rent import Rent, rent_of
from cascadia.planner.tables.packing import packing_rows, packs_perfectly

Floats = NDArray[np.float64]

EPS = 1e-9


ROUGH_JUDGE = 8
"""Values of the judge's quantile tried where nothing is to be proven, on several pools."""


def allocate(
    demands: Sequence[Demand],
    cluster: Cluster,
    *,
    verdict_s: float = 0.0,
    deadline: Deadline | None = None,
    prove: bool = True,
) -> Allocation | None:
    """The allocation with the least largest-stage latency, then the fewest GPUs; None if nothing is stable. At the
    `deadline` (None: none) the best so far, and what is proven by then.

    `verdict_s` is the quantile of a judge that takes no GPU; a self-hosted one is among the demands. Without
    `prove`, one integer program is solved at the bound that the covering problem names, where it can name one
    (one pool that packs perfectly), and nothing is proven of smaller bounds.
    """
    if not prove and one_perfect_pool(cluster):
        return _at_hint(demands, cluster, verdict_s, deadline)
    best: Allocation | None = None
    bound = np.inf
    programme = _Programme.of(demands, cluster, deadline)
    for judge_s in _judge_latencies(demands, cluster, verdict_s, None if prove else ROUGH_JUDGE):
        found = _bisect(programme, cluster, judge_s, best.latency_s if best else np.inf)
        # What is proven holds given one quantile of the judge; over all of them only the lowest bound does.
        bound = min(bound, found.bound_s)
        if found.allocation and (best is None or _key(found.allocation) < _key(best)):
            best = found.allocation
    if best is None:
        return None
    return Allocation(best.replicas, best.latency_s, min(bound, best.latency_s) if prove else 0.0)


def one_perfect_pool(cluster: Cluster) -> bool:
    return len(cluster.pools) == 1 and packs_perfectly(cluster.pools[0])


def _at_hint(
    demands: Sequence[Demand], cluster: Cluster, verdict_s: float, deadline: Deadline | None
) -> Allocation | None:
    hints = []
    for judge_s in _judge_latencies(demands, cluster, verdict_s):
        values = bounds_s(demands, judge_s)
        at = least_index(demands, cluster.gpus, judge_s, values)
        if at < len(values):
            hints.append((float(values[at]), judge_s))
    if not hints:
        return None
    bound_s, judge_s = min(hints)
    result = _Programme.of(demands, cluster, deadline).solve(bound_s, judge_s)
    if result.replicas is None:
        return None
    found = _allocation(demands, result.replicas, bound_s, judge_s)
    return Allocation(found.replicas, found.latency_s, 0.0)


def _key(allocation: Allocation) -> tuple[float, int]:
    return allocation.latency_s, allocation.gpus


def _judge_latencies(
    demands: Sequence[Demand], cluster: Cluster, verdict_s: float, at_most: int | None = None
) -> Sequence[float]:
    """The values of the verdict's quantile that are worth trying, ascending; `at_most` so many, evenly spread.

    On one pool whose nodes pack perfectly only the judge's number of GPUs matters to the stages: for each number
    the lowest quantile is enough.
    """
    judge = next((d for d in demands if d.stage == JUDGE), None)
    if judge is None:
        return [verdict_s]
    values = [float(q) for q in judge.table.bounds_s]
    if not one_perfect_pool(cluster):
        keep = np.linspace(0, len(values) - 1, min(at_most or len(values), len(values))).astype(int)
        return [values[k] for k in np.unique(keep)]
    by_gpus: dict[int, float] = {}
    for value in values:
        gpus = least_gpus(judge, value, cluster.gpus)
        # Values ascend: the first that needs so many GPUs is the lowest that they allow.
        if gpus is not None:
            by_gpus.setdefault(gpus, value)
    return sorted(by_gpus.values())


class _Counts(NamedTuple):
    """`replicas` per column, None where the program has no solution; `proven` that there is none."""

    replicas: list[int] | None
    proven: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Programme:
    """Part that all integer programs of one allocation share: columns (demand, shape), packing rows, costs."""

    demands: tuple[Demand, ...]
    columns: tuple[tuple[int, ...], ...]
    uppers: tuple[int, ...]
    costs: tuple[float, ...]
    packing: tuple[tuple[float, tuple[tuple[int, float], ...]], ...]
    rent: Rent | None
    deadline: Deadline

    @staticmethod
    def of(demands: Sequence[Demand], cluster: Cluster, deadline: Deadline | None) -> "_Programme":
        shapes = [shape for d in demands for shape in d.shapes]
        starts = np.cumsum([0, *(len(d.shapes) for d in demands)]).tolist()
        gpus = {pool.name: pool.gpus for pool in cluster.pools}
        packing = [
            (float(limit), tuple((j, float(w)) for j, w in enumerate(weights) if w))
            for pool in cluster.pools
            for weights, limit in packing_rows(pool, shapes)
        ]
        return _Programme(
            tuple(demands),
            tuple(tuple(range(a, b)) for a, b in pairwise(starts)),
            tuple(gpus[s.pool] // s.gpus for s in shapes),
            tuple(float(s.gpus) for s in shapes),
            tuple(packing),
            rent=rent_of(cluster, shapes),
            deadline=deadline or Deadline(),
        )

    def solve(self, bound_s: float, judge_s: float) -> _Counts:
        shares = [d.table.shares(admissible_s(d, bound_s, judge_s) + EPS) for d in self.demands]
        # A demand that no shape serves within the bound cannot be covered: no program need say so.
        if any(not share.any() for share in shares):
            return _Counts(None, proven=True)
        program = pulp.LpProblem("allocation", pulp.LpMinimize)
        n = [
            # PuLP orders variables by name, and among equally good solutions the order decides.
            program.add_variable(f"n{j:05}", 0, upper if share > 0 else 0, pulp.LpInteger)
            for j, (upper, share) in enumerate(zip(self.uppers, np.concatenate(shares).tolist(), strict=True))
        ]
        program += pulp.lpDot(self.costs, n)
        for columns, share in zip(self.columns, shares, strict=True):  # covering
            program += pulp.lpDot(share.tolist(), [n[j] for j in columns]) >= 1.0 - EPS
        for limit, row in self.packing:  # budget and packing
            program += pulp.lpSum(w * n[j] for j, w in row) <= limit
        if self.rent is not None:
            self.rent.add(program, n)
        solved = solve_by(program, self.deadline)
        return _Counts([whole(x) for x in n] if solved.found else None, solved.proven)


@dataclass(frozen=True, slots=True)
class _Found:
    allocation: Allocation | None
    bound_s: float


def _bisect(programme: _Programme, cluster: Cluster, judge_s: float, cutoff_s: float) -> _Found:
    """Least feasible bound with verdicts within `judge_s`; `bound_s` is proven unbeatable (given `judge_s`).

    Bounds above `cutoff_s` are of no interest; that bound itself is, since it may be kept on fewer GPUs.
    """
    demands = programme.demands
    values = bounds_s(demands, judge_s)
    values = values[values <= cutoff_s]
    # Feasibility is monotone: a larger bound admits every share that a smaller one does.
    low, high = -1, len(values)  # values[low] is infeasible, values[high] feasible
    best: Allocation | None = None
    proven = -1
    probes = _first_probes(demands, cluster, judge_s, values)
    while high - low > 1:
        if programme.deadline.passed and (best is not None or cutoff_s < np.inf):
            break
        at = next((p for p in probes if low < p < high), (low + high) // 2)
        result = programme.solve(float(values[at]), judge_s)
        if result.replicas is not None:
            best, high = _allocation(demands, result.replicas, float(values[at]), judge_s), at
        else:
            # A program that ran out of time counts as infeasible for the search, and as nothing for the proof.
            low = at
            proven = at if result.proven else proven
    # Every value up to `proven` is infeasible; the next one is the least that could hold.
    bound_s = float(values[proven + 1]) if proven + 1 < len(values) else np.inf
    return _Found(best, bound_s)


def _first_probes(
    demands: Sequence[Demand], cluster: Cluster, judge_s: float, values: Floats
) -> tuple[int, ...]:
    """Values to probe first: on one perfectly packing pool the covering problem tells the answer beforehand.

    Whatever it tells, the integer program has the last word: it must solve at the hint and fail just below. Elsewhere
    the last value is what another quantile of the judge was found to allow: most others do not allow less.
    """
    if not one_perfect_pool(cluster):
        return (len(values) - 1, len(values) - 2)
    hint = least_index(demands, cluster.gpus, judge_s, values)
    return (hint, hint - 1)


def admissible_s(demand: Demand, bound_s: float, judge_s: float) -> float:
    """Seconds that a replica of `demand` may take at the quantile so that the stage keeps within `bound_s`."""
    if demand.stage == JUDGE:
        return judge_s
    return bound_s - judge_s if demand.gated else bound_s


def _allocation(
    demands: Sequence[Demand], columns: Sequence[int], bound_s: float, judge_s: float
) -> Allocation:
    counts = iter(columns)
    replicas: dict[int, tuple[Replicas, ...]] = {}
    reached = 0.0 if any(d.stage != JUDGE for d in demands) else judge_s
    for demand in demands:
        levels = demand.table.best_level(admissible_s(demand, bound_s, judge_s) + EPS)
        taken = [(s, count) for s, count in enumerate(itertools.islice(counts, len(demand.shapes))) if count]
        replicas[demand.stage] = tuple(
            Replicas(demand.shapes[s], count, int(demand.table.levels[levels[s]])) for s, count in taken
        )
        # Below the bound as a rule: it is a value of some demand, and here count those of the replicas taken.
        slowest = max((float(demand.table.latency_s[s, levels[s]]) for s, _ in taken), default=0.0)
        if demand.stage != JUDGE:
            reached = max(reached, slowest + (judge_s if demand.gated else 0.0))
    return Allocation(replicas, reached, reached)
