"""CascadeServe as a baseline: cascade, placement and replication tuned to load alone (its sections 4 and 5).

It sees requests per second and each model's throughput, not the lengths and the difficulty that reach a stage: a
stage's work is its request rate times the model's mean demand, thresholds are those that hold the bar with the least
GPU time, replicas of a model are alike, and GPUs go to stages in proportion to work. As in Cascadia's evaluation
(section 4.1) its parallelism and routing are tuned: several routings and shapes are tried, simulated end to end, and
the best counts. What such deployments sustain at most is reckoned from the requests that do reach each stage, as it is
for every other system (`throughput.py`), whatever CascadeServe itself believes.
"""

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.planner.allocation import EPS
from cascadia.planner.baselines import Entry, entry, nothing
from cascadia.planner.demand import JUDGE, Demand, Replicas
from cascadia.planner.deployment import Deployment, deployment
from cascadia.planner.options import Mix
from cascadia.planner.references import References
from cascadia.planner.refine import Refinement, within_limits
from cascadia.planner.routings import Routings
from cascadia.planner.search import Search, allowed
from cascadia.planner.simulation import Simulator
from cascadia.planner.throughput import largest_factor

Bools = NDArray[np.bool_]

NAME = "cascadeserve"
ROUTINGS = 6
PREFERENCES = 4
"""How many routings, by GPU time, and shapes (the most throughput per GPU, then ever larger ones) are tried."""

APART = 0.02
"""Routings tried differ by more than this part of the requests at some stage."""

FASTEST = 3
"""Of so many routings, by GPU time, is the largest rate worked out."""


def cascadeserve(search: Search, *, most_routings: int = ROUTINGS, with_rate: bool = True) -> Entry:
    """The best of the deployments tried; `with_rate`: also the largest rate that one of its kind sustains."""
    good = allowed(search)
    if not good.any():
        best = float(search.routings.lower.max(initial=0.0))
        return nothing(NAME, f"misses the bar: {best:.1f} at most")
    whole = {d.stage: d for d, _ in search.whole_demands()}
    pool = max(search.problem.cluster.pools, key=lambda p: p.gpus)
    order = _by_gpu_time(search.routings, whole, pool, good)
    apart = search.routings.first_apart(order, most_routings, APART)
    found = [
        d
        for k in apart
        for preference in range(PREFERENCES)
        if (d := _by_load(search, whole, _parts(search, whole, k), pool, k, preference)) is not None
    ]
    factors = [_largest_factor(search, pool, k) for k in apart[:FASTEST]] if with_rate else [0.0]
    rate = search.problem.workload.rate_rps * max(factors)
    state = Refinement(search, Simulator.of(search.problem), References(search))
    candidates = [c for c in state.simulate(found) if within_limits(search.problem, c)]
    if not candidates:
        return Entry(NAME, None, None, float("nan"), float("nan"), rate, "the traffic is not sustained")
    return entry(NAME, search, min(candidates, key=lambda c: c.latency_s), rate)


def _by_gpu_time(routings: Routings, whole: dict[int, Demand], pool: Pool, good: Bools) -> list[int]:
    cost = np.zeros(len(good))
    for stage, demand in whole.items():
        if stage != JUDGE:
            cost += routings.reached[:, stage] * min(_gpu_time(demand, i) for i in _mine(demand, pool))
    return [k for k in np.argsort(cost, kind="stable").tolist() if good[k]]


def _mine(demand: Demand, pool: Pool) -> list[int]:
    return [i for i, shape in enumerate(demand.shapes) if shape.pool == pool.name]


def _gpu_time(demand: Demand, shape: int) -> float:
    """GPUs that all of the demand's work needs in this shape."""
    return float(demand.table.saturated[shape]) * demand.shapes[shape].gpus


def _parts(search: Search, whole: dict[int, Demand], routing: int) -> dict[int, float]:
    """What part of the requests (of all gates' verdicts: the judge) reaches each of a routing's demands."""
    stages = np.flatnonzero(search.routings.deployed[routing]).tolist()
    parts = {s: float(search.routings.reached[routing, s]) for s in stages}
    if JUDGE in whole and len(stages) > 1:
        parts[JUDGE] = sum(parts[s] for s in stages[:-1]) / max(len(search.problem.stages) - 1, 1)
    return parts


def _by_load(
    search: Search,
    demands: dict[int, Demand],
    parts: dict[int, float],
    pool: Pool,
    routing: int,
    preference: int,
) -> Deployment | None:
    """GPUs in proportion to work, `parts` of that of `demands`; None where replicas that keep up do not fit."""
    chosen = {s: _shape(demands[s], pool, 0 if s == JUDGE else preference) for s in parts}
    need = {s: part * float(demands[s].table.saturated[chosen[s]]) for s, part in parts.items()}
    gpus = {s: demands[s].shapes[chosen[s]].gpus for s in parts}
    total = sum(need[s] * gpus[s] for s in parts)
    mixes: dict[int, Mix] = {}
    for s in parts:
        in_proportion = int(pool.gpus * need[s] * gpus[s] / max(total, EPS) / gpus[s])
        least = max(1, int(np.ceil(need[s] - EPS)))
        count = least if s == JUDGE else max(least, in_proportion)
        mixes[s] = (Replicas(demands[s].shapes[chosen[s]], count, count),)
    return _trimmed(search, mixes, routing, need)


def _trimmed(
    search: Search, mixes: dict[int, Mix], routing: int, need: dict[int, float]
) -> Deployment | None:
    """Rounding may overshoot: take replicas from the stage that has the most to spare until all fit."""
    while True:
        found = deployment(routing, mixes)
        if found.fits(search.problem.cluster):
            return found
        spare = {
            s: m[0].count / max(need[s], EPS) for s, m in mixes.items() if m[0].count - 1 >= max(need[s], 1)
        }
        if not spare:
            return None
        s = max(spare, key=lambda k: spare[k])
        count = mixes[s][0].count - 1
        mixes = mixes | {s: (Replicas(mixes[s][0].shape, count, count),)}


def _shape(demand: Demand, pool: Pool, preference: int) -> int:
    mine = _mine(demand, pool)
    if preference == 0:
        return min(mine, key=lambda i: _gpu_time(demand, i))
    larger = sorted(mine, key=lambda i: (demand.shapes[i].gpus, demand.shapes[i].pp))
    return larger[min(preference - 1, len(larger) - 1)]


def _largest_factor(search: Search, pool: Pool, routing: int) -> float:
    """How far the rate can grow until the routing fits in none of the shapes."""
    demands = {d.stage: d for d in search.demands(routing)}

    def fits(factor: float) -> bool:
        parts = dict.fromkeys(demands, factor)
        return any(_by_load(search, demands, parts, pool, routing, p) is not None for p in range(PREFERENCES))

    return largest_factor(fits)
