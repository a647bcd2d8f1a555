"""CascadeServe as a baseline: cascade, placement and replication tuned to load alone (its sections 4 and 5).

It sees requests per second and each model's throughput, not the lengths and the difficulty that reach a stage: a
stage's work is its request rate times the model's mean demand, thresholds are those that hold the bar with the least
GPU time, replicas of a model are alike, and GPUs go to stages in proportion to work. As in Cascadia's evaluation
(section 4.1) its parallelism and routing are tuned: several routings, shapes and pools are tried, idle GPUs are given
to whoever has the most work, and from the best, simulated end to end, it climbs as Cascadia does, with as many
simulations (`refinement/alike.py`). What such deployments sustain at most is reckoned from the requests that do reach
each stage, as it is for every other system (`search/throughput.py`), whatever CascadeServe itself believes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.columns import EPS
from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.baselines.single_model import Entry, entry, nothing
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.alike import Alike, deployed_alike, filled, steps
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.refine import EFFORT, Effort, Refinement, rank, within_limits
from cascadia.planner.refinement.standing import Standing, starts_of_each
from cascadia.planner.refinement.supersets import with_other_tokens
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.throughput import carried_rps, largest_factor
from cascadia.planner.tables.shapes import Shape

Bools = NDArray[np.bool_]

NAME = "cascadeserve"
ROUTINGS = 6
PREFERENCES = 4
"""How many routings, by GPU time, and shapes (the most throughput per GPU, then ever larger ones) are tried."""

APART = 0.02
"""Routings tried differ by more than this part of the requests at some stage."""

FASTEST = 3
"""Of so many routings, by GPU time, is the largest rate worked out."""

PLACEMENTS = 16
"""Ways to give each stage and the judge a pool that are tried at most; those with all on one pool come first."""

Placement = Mapping[int, str]
Ways = Sequence[tuple[Placement, int]]


def cascadeserve(
    search: Search, effort: Effort = EFFORT, *, most_routings: int = ROUTINGS, with_rate: bool = True
) -> Entry:
    """The best of the deployments tried, also with other numbers of tokens an iteration where a plan looks at those;
    `with_rate`: also the largest rate that one of its kind sustains.
    """
    found = _cascadeserve(search, effort, most_routings, with_rate=with_rate)
    if (anew := with_other_tokens(search, found.best)) is None:
        return found
    again = _cascadeserve(anew, effort, most_routings, with_rate=False)
    if again.best is None or (
        found.best is not None and rank(search.problem, found.best) <= rank(search.problem, again.best)
    ):
        return found
    return replace(again, max_rate_rps=max(again.max_rate_rps, found.max_rate_rps))


def _cascadeserve(search: Search, effort: Effort, most_routings: int, *, with_rate: bool) -> Entry:
    good = allowed(search)
    if not good.any():
        best = float(search.routings.lower.max(initial=0.0))
        return nothing(NAME, f"misses the bar: {best:.1f} at most")
    whole = {d.stage: d for d, _ in search.whole_demands()}
    apart = search.routings.first_apart(_by_gpu_time(search.routings, whole, good), most_routings, APART)
    found = [d for k in apart for d in _tried(search, whole, parts_of(search, whole, k), k, PREFERENCES)]
    rate = carried_rps(search, _most(search, apart[:FASTEST])) if with_rate else 0.0
    state = Refinement(search, search.simulator, References(search))
    state.simulate(found)
    _climb(
        state,
        whole,
        apart,
        max(effort.fewest_simulations, effort.simulated_requests // len(search.problem.workload)),
    )
    chosen = first_certified(state, [c for c in state.seen.values() if within_limits(search.problem, c)])
    if chosen is None:
        return Entry(
            NAME,
            None,
            None,
            quality_mean=float("nan"),
            quality_lower=float("nan"),
            max_rate_rps=rate,
            why="the traffic is not sustained",
        )
    return entry(NAME, search, chosen, rate)


def _climb(state: Refinement, whole: Mapping[int, Demand], routings: Sequence[int], simulations: int) -> None:
    """Steps from the most promising, as Cascadia takes them, until none of these is left, or as many cascades are
    simulated beyond the first as a plan simulates."""
    problem = state.search.problem
    most = len(state.seen) + simulations
    standing, each = Standing(problem), starts_of_each(simulations)
    while len(state.seen) < most:
        if (start := standing.next_start(state.seen, each)) is None:
            return
        here = start.deployment
        others = [k for k in routings if k != here.routing and state.search.routings.alike(k, here.routing)]
        beside = [*steps(here, whole, problem.cluster), *(Deployment(k, here.mixes) for k in others)]
        state.simulate([d for d in beside if d.key not in state.seen][: most - len(state.seen)])


def _by_gpu_time(routings: Routings, whole: Mapping[int, Demand], good: Bools) -> list[int]:
    cost = np.zeros(len(good))
    for stage, demand in whole.items():
        if stage != JUDGE:
            cost += routings.reached[:, stage] * min(_gpu_time(demand, i) for i in range(len(demand.shapes)))
    return [k for k in np.argsort(cost, kind="stable").tolist() if good[k]]


def _gpu_time(demand: Demand, shape: int) -> float:
    """Cost of the GPUs that all of the demand's work needs in this shape: on one pool, their number."""
    return float(demand.table.saturated[shape]) * demand.shapes[shape].usd_per_hour


def parts_of(search: Search, whole: Mapping[int, Demand], routing: int) -> dict[int, float]:
    """Part of the requests (of all gates' verdicts: the judge) that reaches each of a routing's demands."""
    stages = search.on_gpus(routing)
    parts = {s: float(search.routings.reached[routing, s]) for s in stages}
    if JUDGE in whole and search.asks(routing):
        # Of the verdicts of all gates: with exits, on trials where no gate is too.
        verdicts = search.routings.verdicts(np.array([routing]))
        parts[JUDGE] = float(verdicts.sum()) / max(len(search.problem.stages) - 1, 1)
    return parts


def _tried(
    search: Search, demands: Mapping[int, Demand], parts: Mapping[int, float], routing: int, preferences: int
) -> list[Deployment]:
    """Every placement in so many preferred shapes, with no GPU left idle that a replica would fit on."""
    cluster = search.problem.cluster
    found = []
    for placement in _placements(search, tuple(parts)):
        for preference in range(preferences):
            chosen = _by_load(search, demands, parts, placement, routing, preference)
            if chosen is not None:
                found.append(deployed_alike(routing, filled(routing, chosen, demands, parts, cluster)))
    return found


def placed(search: Search, parts: Mapping[int, float], routing: int) -> list[Deployment]:
    """Deployments of all GPUs, in proportion to the work of `parts` (0-1, by stage) of the requests: one for each
    placement, in the shapes with the most throughput per GPU.
    """
    return _tried(search, {d.stage: d for d, _ in search.whole_demands()}, parts, routing, preferences=1)


def _placements(search: Search, stages: tuple[int, ...]) -> list[Placement]:
    pools = [p.name for p in sorted(search.problem.cluster.pools, key=lambda p: -p.gpus)]
    together: list[Placement] = [dict.fromkeys(stages, pool) for pool in pools]
    apart: list[Placement] = [
        dict(zip(stages, chosen, strict=True)) for chosen in product(pools, repeat=len(stages))
    ]
    return [*together, *(p for p in apart if p not in together)][:PLACEMENTS]


def _by_load(
    search: Search,
    demands: Mapping[int, Demand],
    parts: Mapping[int, float],
    placement: Placement,
    routing: int,
    preference: int,
) -> Alike | None:
    """GPUs of each pool in proportion to work, `parts` of that of `demands`; None where replicas that keep up do not
    fit."""
    shape: dict[int, Shape] = {}
    need: dict[int, float] = {}
    for s, part in parts.items():
        at = _shape(demands[s], placement[s], 0 if s == JUDGE else preference)
        if at is None:
            return None
        shape[s], need[s] = demands[s].shapes[at], part * float(demands[s].table.saturated[at])
    chosen: Alike = {}
    for s in parts:
        beside = sum(need[t] * shape[t].gpus for t in parts if placement[t] == placement[s])
        in_proportion = int(search.problem.cluster.pool(placement[s]).gpus * need[s] / max(beside, EPS))
        chosen[s] = (shape[s], max(1, int(np.ceil(need[s] - EPS)), in_proportion))
    return _trimmed(search, chosen, routing, need)


def _trimmed(search: Search, chosen: Alike, routing: int, need: Mapping[int, float]) -> Alike | None:
    """Rounding may overshoot: take replicas from the stage that has the most to spare until all fit."""
    while not deployed_alike(routing, chosen).fits(search.problem.cluster):
        spare = {s: n / max(need[s], EPS) for s, (_, n) in chosen.items() if n - 1 >= max(need[s], 1)}
        if not spare:
            return None
        s = max(spare, key=lambda k: spare[k])
        chosen = chosen | {s: (chosen[s][0], chosen[s][1] - 1)}
    return chosen


def _shape(demand: Demand, pool: str, preference: int) -> int | None:
    mine = [i for i, shape in enumerate(demand.shapes) if shape.pool == pool]
    if preference == 0 or not mine:
        return min(mine, key=lambda i: _gpu_time(demand, i), default=None)
    larger = sorted(mine, key=lambda i: (demand.shapes[i].gpus, demand.shapes[i].pp))
    return larger[min(preference - 1, len(larger) - 1)]


def _most(search: Search, routings: Sequence[int]) -> list[tuple[float, Deployment]]:
    """Factors by which the rate can grow until a routing fits in none of the placements and shapes, and what
    carries that.
    """
    found = []
    for k in routings:
        demands = {d.stage: d for d in search.demands(k)}
        ways = list(product(_placements(search, tuple(demands)), range(PREFERENCES)))

        def chosen(
            factor: float, k: int = k, demands: dict[int, Demand] = demands, ways: Ways = ways
        ) -> Alike | None:
            parts = dict.fromkeys(demands, factor)
            every = (_by_load(search, demands, parts, at, k, preferred) for at, preferred in ways)
            return next((way for way in every if way is not None), None)

        factor = largest_factor(lambda f, chosen=chosen: chosen(f) is not None)  # type: ignore[misc]
        if factor > 0 and (way := chosen(factor)) is not None:
            found.append((factor, deployed_alike(k, way)))
    return found
