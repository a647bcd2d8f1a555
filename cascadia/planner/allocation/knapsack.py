"""The covering problem of one stage on one pool, solved exactly by dynamic programming.

Given shapes with g[s] GPUs that may each take a share a[s] of the stage's requests, what is the largest share
that f GPUs can take?

    cover(f) = max over s with g[s] <= f of cover(f - g[s]) + a[s],   cover(0) = 0          (unbounded knapsack)

The least f with cover(f) >= 1 is the stage's smallest allocation. Where a pool's nodes pack perfectly (group sizes
that divide each other and the node), stages only share the sum of their GPUs, and the allocation problem is solved
by these functions alone: the special-purpose solver beside the integer programs of `columns.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.demand import JUDGE, Demand

Floats = NDArray[np.float64]

EPS = 1e-9


class Cover(NamedTuple):
    """`share[f]` for f = 0..F, and `last[f]`: the shape whose replica was added last (-1: none, f - 1 does)."""

    share: Floats
    last: NDArray[np.int64]


def cover(gpus: Sequence[int], shares: Floats, most: int, enough: float = np.inf) -> Cover:
    """Largest share per number of GPUs up to `most`; stops (and pads) once `enough` is reached."""
    useful = [(g, a, s) for s, (g, a) in enumerate(zip(gpus, shares.tolist(), strict=True)) if a > 0]
    share, last = [0.0], [-1]
    for f in range(1, most + 1):
        best, which = share[f - 1], -1
        for g, a, s in useful:
            # Ties stay with the shape found first, so that rounding of sums decides nothing.
            if g <= f and share[f - g] + a > best + 1e-12:
                best, which = share[f - g] + a, s
        share.append(best)
        last.append(which)
        if best >= enough - EPS:
            break
    pad = most + 1 - len(share)
    return Cover(np.array(share + [share[-1]] * pad), np.array(last + [-1] * pad))


def mix(found: Cover, gpus: Sequence[int], f: int) -> dict[int, int]:
    """Replicas per shape behind `found.share[f]`."""
    counts: dict[int, int] = {}
    while f > 0:
        s = int(found.last[f])
        # The last GPU added nothing: the mixture of one fewer is as good.
        if s < 0:
            f -= 1
            continue
        counts[s] = counts.get(s, 0) + 1
        f -= gpus[s]
    return counts


def least_gpus(demand: Demand, allowed_s: float, most: int) -> int | None:
    """Fewest GPUs with which `demand` keeps its quantile within `allowed_s`; None if `most` are too few."""
    gpus = [shape.gpus for shape in demand.shapes]
    found = cover(gpus, demand.table.shares(allowed_s + EPS), most, enough=1.0)
    enough = np.flatnonzero(found.share >= 1.0 - EPS)
    return int(enough[0]) if len(enough) else None


def least_index(demands: Sequence[Demand], gpus: int, judge_s: float, bounds: Floats) -> int:
    """Position of the least of `bounds` (ascending) that all demands keep on `gpus` GPUs; len(bounds) if none.

    Stages keep within the bound, verdicts (after gated stages) within `judge_s`. For a single, perfectly packing
    pool, where only the sum of GPUs matters.
    """
    low, high = -1, len(bounds)
    while high - low > 1:
        middle = (low + high) // 2
        if _fit(demands, gpus, judge_s, float(bounds[middle])):
            high = middle
        else:
            low = middle
    return high


def bounds_s(demands: Sequence[Demand], judge_s: float) -> Floats:
    """Values that the largest stage quantile may have with verdicts within `judge_s`, ascending.

    Where all stages are elsewhere, the judge alone is on GPUs, and its own quantile is what answers wait for here.
    """
    stages = [d for d in demands if d.stage != JUDGE]
    if not stages:
        return np.array([judge_s])
    return np.unique(np.concatenate([d.table.bounds_s + (judge_s if d.gated else 0.0) for d in stages]))


def least_latency(demands: Sequence[Demand], gpus: int, verdict_s: float) -> float | None:
    """The special-purpose solver: least largest-stage quantile on one perfectly packing pool; None if unstable."""
    judge = next((d for d in demands if d.stage == JUDGE), None)
    best: float | None = None
    for judge_s in judge.table.bounds_s.tolist() if judge else [verdict_s]:
        bounds = bounds_s(demands, judge_s)
        at = least_index(demands, gpus, judge_s, bounds)
        if at < len(bounds) and (best is None or bounds[at] < best):
            best = float(bounds[at])
    return best


def _fit(demands: Sequence[Demand], gpus: int, judge_s: float, bound_s: float) -> bool:
    left = gpus
    for d in demands:
        allowed = judge_s if d.stage == JUDGE else bound_s - judge_s if d.gated else bound_s
        need = least_gpus(d, allowed, left)
        if need is None:
            return False
        left -= need
    return True
