"""How much traffic could a cluster sustain? Saturated throughput of the best deployment, latency aside.

A replica keeps up as long as its share of a stage's work stays under `STABLE_SHARE` of its saturated throughput
(`tables.saturation_level`). For a routing, the largest factor by which today's rate can grow is found by bisection
over the covering problem with shares 1 / saturated.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation import EPS
from cascadia.planner.demand import JUDGE, Demand
from cascadia.planner.knapsack import cover
from cascadia.planner.milp import Milp
from cascadia.planner.packing import packing_rows
from cascadia.planner.references import References, judge_tokens, stage_tokens
from cascadia.planner.search import Search

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRECISION = 0.002
"""Relative width at which bisections stop."""

LEAST_FACTOR = 1e-4
"""Less than this of today's rate is none: it lies near the solver's own tolerance."""

CLOSER = 8
"""Routings whose factor is worked out with tables of their own."""

APART = 0.005
"""Of routings that differ by less than this part of the requests at every stage only one is worked out."""


def max_rate_rps(search: Search, routings: Ints, *, equal_parts: bool = False) -> float:
    """The highest sustainable rate over `routings`; 0 if none sustains anything.

    `equal_parts`: each deployed stage (and a judge with GPUs) may take no more than an equal part of the GPUs.
    """
    if not len(routings):
        return 0.0
    closest = most_sustaining(search, routings, equal_parts=equal_parts)
    factors = [largest_factor(partial(_covers, search, search.demands(k), equal_parts)) for k, _ in closest]
    return max(factors) * search.problem.workload.rate_rps


def most_sustaining(
    search: Search, routings: Ints, *, equal_parts: bool = False, most: int = CLOSER
) -> list[tuple[int, float]]:
    """Those of `routings` that seem to sustain the most, with the factor of today's rate that they seem to.

    Of equal ones the lightest come first, and none is nearly another's twin.
    """
    estimates = _estimates(search, routings, equal_parts)
    order = np.lexsort((search.routings.reached[routings].sum(axis=1), -np.round(estimates, 3)))
    chosen = search.routings.first_apart(routings[order].tolist(), most, APART)
    known = dict(zip(routings.tolist(), estimates.tolist(), strict=True))
    return [(k, known[k]) for k in chosen]


def _estimates(search: Search, routings: Ints, equal_parts: bool) -> Floats:
    """The factor of each routing if all pools were one, from the tables made for all requests."""
    references = References.of(search).by_stage
    total = search.problem.cluster.gpus
    covers, work = {}, {}
    for stage, known in references.items():
        table = known[0].demand.table
        covers[stage] = cover(
            [s.gpus for s in table.shapes], 1.0 / np.maximum(table.saturated, EPS), total
        ).share
        tokens = judge_tokens(search, routings) if stage == JUDGE else stage_tokens(search, stage, routings)
        work[stage] = tokens / known[0].work
    deployed = sum(((w > 0).astype(np.int64) for w in work.values()), np.zeros(len(routings), np.int64))
    part = total // deployed if equal_parts else np.full(len(routings), total)
    low, high = np.zeros(len(routings)), np.full(len(routings), 1e6)
    for _ in range(60):
        middle = np.sqrt(np.maximum(low, 1e-3) * high)
        needs = [np.where(w > 0, np.searchsorted(covers[s], w * middle - EPS), 0) for s, w in work.items()]
        fits = (np.sum(needs, axis=0) <= total) & (np.max(needs, axis=0) <= part)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


def largest_factor(fits: Callable[[float], bool]) -> float:
    """The largest factor that `fits`, of which every smaller one does; 0 if none above `LEAST_FACTOR`."""
    low, high = 0.0, 1.0
    while fits(high) and high < 1e6:
        low, high = high, high * 2
    while high - low > PRECISION * high and high > LEAST_FACTOR:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low if low > LEAST_FACTOR else 0.0


def _covers(search: Search, demands: Sequence[Demand], equal_parts: bool, factor: float) -> bool:
    """Is there an allocation that sustains `factor` times the demands' work?"""
    milp = Milp()
    columns = [(d, s) for d in demands for s in range(len(d.shapes))]
    shapes = [d.shapes[s] for d, s in columns]
    for shape in shapes:
        milp.integer(cost=float(shape.gpus), upper=search.budget(shape))
    part = search.problem.cluster.gpus // len(demands)
    for demand in demands:
        shares = 1.0 / np.maximum(demand.table.saturated, EPS)
        mine = [(j, s) for j, (d, s) in enumerate(columns) if d is demand]
        milp.at_least(factor * (1 - EPS), [(j, float(shares[s])) for j, s in mine])
        if equal_parts:
            milp.at_most(float(part), [(j, float(shapes[j].gpus)) for j, _ in mine])
    for pool in search.problem.cluster.pools:
        for weights, limit in packing_rows(pool, shapes):
            milp.at_most(float(limit), [(j, float(w)) for j, w in enumerate(weights) if w])
    return milp.solve(5.0).values is not None
