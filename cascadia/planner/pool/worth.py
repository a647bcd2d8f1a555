"""Requests that a dollar buys on each kind of GPU, by size, and whether one kind is the cheapest for all.

By the least time that a request takes of a replica (`fluid.py`), so at the most, and with latency left aside: mixtures
pay where another kind is cheaper for some size, where the cheapest kind is scarce, or where it is too slow for some.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.pool.rate_bound import QUARTERS, Work, by_class, works
from cascadia.planner.search.context import Search

Floats = NDArray[np.float64]

LITTLE = 0.02
"""Kinds whose cost differs by less than this share are equals: times are not told more precisely."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Requests a dollar on a pool's cheapest shape for each: all of a stage's, and `by_size`, from the quarter that
    takes least to that which takes most."""

    stage: str
    pool: str
    requests_per_usd: float
    by_size: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Dominance:
    """`pool` is the cheapest for every size at every stage, or equal to the cheapest. `ends`: by other pool, the price
    of a GPU-hour below which that one is the cheaper for some size, and `pool` no longer dominates."""

    pool: str
    ends: dict[str, float]


def worths(search: Search, routing: int) -> list[Worth]:
    """Worths by stage, then falling; of the requests that a routing sends each stage."""
    found = []
    for name, work in _named(search, routing):
        counts, usd = _usd_by_class(work)
        quarter = np.unique(work.classes) // QUARTERS
        for pool, cost in usd.items():
            mean = [
                float(np.average(cost[quarter == q], weights=counts[quarter == q])) for q in range(QUARTERS)
            ]
            found.append(
                Worth(name, pool, _per(np.average(cost, weights=counts)), tuple(_per(x) for x in mean))
            )
    order = list(dict.fromkeys(w.stage for w in found))
    return sorted(found, key=lambda w: (order.index(w.stage), -w.requests_per_usd))


def _per(usd: float) -> float:
    return 1.0 / usd if usd > 0 else np.inf


def dominance(search: Search, routing: int) -> Dominance | None:
    """The one kind that is cheapest for all sizes at all stages; None where there is none, or but one kind."""
    each = [_usd_by_class(work)[1] for _, work in _named(search, routing)]
    pools = [pool.name for pool in search.problem.cluster.pools]
    if len(pools) < 2 or not each:
        return None
    for pool in pools:
        if all(pool in usd and _cheapest(usd, pool) for usd in each):
            return Dominance(pool, _ends(search, each, pool))
    return None


def _cheapest(usd: dict[str, Floats], pool: str) -> bool:
    return all(bool((usd[pool] <= other * (1 + LITTLE)).all()) for other in usd.values())


def _ends(search: Search, each: Sequence[dict[str, Floats]], pool: str) -> dict[str, float]:
    ends = {}
    for other in search.problem.cluster.pools:
        if other.name == pool or other.paid_usd_per_gpu_hour <= 0:
            continue
        ratios = [float((usd[pool] / usd[other.name]).max()) for usd in each if other.name in usd]
        # Beside what costs nothing no price is lower.
        if ratios and max(ratios) > 0:
            # Up to there both still count as equals.
            ends[other.name] = other.paid_usd_per_gpu_hour * max(ratios) / (1 + LITTLE)
    return ends


def _named(search: Search, routing: int) -> list[tuple[str, Work]]:
    """Work of each stage with requests, the judge's last."""
    return [
        ("judge" if s == JUDGE else search.problem.stages[s].name, work)
        for s, work in works(search, search.decisions(routing)).items()
    ]


def _usd_by_class(work: Work) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """Requests of each class, and what one costs, by pool, on the shape that is cheapest for it."""
    counts, seconds = by_class(work)
    usd: dict[str, Floats] = {}
    for shape, each in zip(work.shapes, seconds, strict=True):
        cost = each * shape.usd_per_hour / 3600.0 / max(shape.there, 1e-9)
        usd[shape.pool] = np.minimum(cost, usd.get(shape.pool, np.full(len(cost), np.inf)))
    return counts, usd


def dominance_note(search: Search, routing: int) -> list[str]:
    """Sentence on whether one kind dominates; none where there is but one."""
    if len(search.problem.cluster.pools) < 2 or not search.on_gpus(routing):
        return []
    found = dominance(search, routing)
    if found is None:
        best = {}
        for name, work in _named(search, routing):
            _, usd = _usd_by_class(work)
            at = np.array(list(usd.values())).argmin(axis=0)
            best[name] = " then ".join(dict.fromkeys(list(usd)[k] for k in at.tolist()))
        said = "; ".join(f"{name}: {pools}" for name, pools in best.items())
        return [
            f"no GPU type is the cheapest for all requests (latency aside), from short ones to long: {said}"
        ]
    pools = {pool.name: pool for pool in search.problem.cluster.pools}
    ends = " or ".join(
        f"{name} costs less than ${usd:.3g}/h (now ${pools[name].paid_usd_per_gpu_hour:.3g})"
        for name, usd in found.ends.items()
    )
    until = f", until {ends}" if ends else ""
    return [f"one type dominates: {found.pool} serves every size of request cheapest, latency aside{until}"]
