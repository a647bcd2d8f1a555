"""Why there is no plan: which constraint binds, and the nearest value that would do."""

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.planner.bilevel import BilevelResult, priced
from cascadia.planner.demand import JUDGE, Demand
from cascadia.planner.knapsack import EPS, cover
from cascadia.planner.references import References
from cascadia.planner.refine import Candidate
from cascadia.planner.search import Search

Floats = NDArray[np.float64]

SEARCHED_GPUS = 16
"""How many times the cluster's GPUs are tried before the answer is "more than"."""


def quality_out_of_reach(search: Search) -> Infeasible | None:
    """Set if no routing at all has the quality asked for."""
    bar, routings = search.problem.objective.quality_min, search.routings
    if bar is None or (routings.lower >= bar).any():
        return None
    best = int(routings.lower.argmax())
    confidence = search.problem.confidence
    return Infeasible(
        f"quality_min {bar:g} is above what any routing of these models reaches",
        f"the best is {_floor(float(routings.lower[best]))} at {confidence:.0%} confidence (its mean over"
        f" {len(search.problem.quality):,} questions is {routings.mean[best]:.2f})"
        f"{_of_which_sustained(search, float(routings.lower[best]))}; lower quality_min to that,"
        " add questions to the quality table, or add a better model",
    )


def _of_which_sustained(search: Search, best: float) -> str:
    """What the cluster's GPUs leave of the best quality; empty where that is all of it."""
    prices = priced(References.of(search))
    sustained = search.routings.lower[np.isfinite(prices)]
    have, rate = search.problem.cluster.gpus, search.problem.workload.rate_rps
    if not len(sustained):
        return f", though with {have} GPUs no routing at all sustains {rate:.3g} requests/s"
    if _floor(float(sustained.max())) == _floor(best):
        return ""
    return f", and with {have} GPUs at {rate:.3g} requests/s it is {_floor(float(sustained.max()))}"


def nothing_sustains(search: Search, loop: BilevelResult) -> Infeasible:
    """No routing of the asked quality can be sustained on the cluster."""
    bar = search.problem.objective.quality_min or 0.0
    have = search.problem.cluster.gpus
    rate = search.problem.workload.rate_rps
    need = least_gpus_for(search, loop, bar)
    sustained = np.flatnonzero(np.isfinite(loop.prices_s))
    best = float(search.routings.lower[sustained].max()) if len(sustained) else None
    asked = f"quality {bar:g} needs " + (
        f">= {need} GPUs" if need else f"more than {SEARCHED_GPUS * have} GPUs"
    )
    otherwise = (
        f"with {have} the best is {_floor(best)}"
        if best is not None
        else f"with {have} no routing at all sustains {rate:.3g} requests/s"
    )
    return Infeasible(f"{asked} at {rate:.3g} requests/s", otherwise)


def too_slow(search: Search, found: Sequence[Candidate]) -> Infeasible:
    """Quality and GPUs would do, but the latency bound does not."""
    objective = search.problem.objective
    best = min(found, key=lambda c: c.latency_s)
    bar = f" at quality >= {objective.quality_min:g}" if objective.quality_min else ""
    return Infeasible(
        f"latency_max_s {objective.latency_max_s:g} (p{objective.quantile * 100:g}) is below what"
        f" {search.problem.cluster.gpus} GPUs reach{bar}",
        f"the lowest found is {best.latency_s:.3g} s",
    )


def least_gpus_for(search: Search, loop: BilevelResult, bar: float) -> int | None:
    """Fewest GPUs (of the largest pool's kind) that sustain some routing with its lower bound at `bar`."""
    pool = max(search.problem.cluster.pools, key=lambda p: p.gpus)
    most = SEARCHED_GPUS * search.problem.cluster.gpus
    routings = np.flatnonzero(search.routings.lower >= bar)
    if len(routings) > 200:
        routings = routings[np.unique(np.linspace(0, len(routings) - 1, 200).astype(int))]
    best: int | None = None
    covers: dict[int, Floats] = {}
    for k in routings.tolist():
        total = 0
        stages = np.flatnonzero(search.routings.deployed[k]).tolist()
        for s in [*stages, *([JUDGE] if search.self_hosted_judge and len(stages) > 1 else [])]:
            demand, need = loop.references.one(s, k)
            if id(demand) not in covers:
                covers[id(demand)] = _stable_cover(demand, pool, most)
            enough = np.flatnonzero(covers[id(demand)] >= need - EPS)
            total += int(enough[0]) if len(enough) else most + 1
        if total <= most and (best is None or total < best):
            best = total
    return best


def _stable_cover(demand: Demand, pool: Pool, most: int) -> Floats:
    """Work covered per number of GPUs when latency does not matter, only keeping up.

    On nodes that groups do not fill, a group counts with its part of what the node leaves unused.
    """
    mine = [s for s, shape in enumerate(demand.shapes) if shape.pool == pool.name]
    node = pool.gpus_per_node
    gpus = [shape.pp * (node // (node // shape.tp)) for shape in (demand.shapes[s] for s in mine)]
    return cover(gpus, demand.table.shares(sys.float_info.max)[mine], most).share


def _floor(quality: float) -> str:
    """To two decimals, downward: what is named must be reachable."""
    return f"{np.floor(quality * 100) / 100:.2f}".rstrip("0").rstrip(".")
