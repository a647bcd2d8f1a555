"""Throughput: the traffic that a cluster could carry, latency aside, with the deployment that is best for that.

A replica keeps up as long as its share of a stage's work stays under `STABLE_SHARE` of what it sustains
(`tables.saturation_level`). For a routing, the largest factor by which today's rate can grow is that of the covering
problem with shares 1 / saturated. That says which deployments to try; what they carry is then found by simulation, with
the certificate that plans are held to (`stability/headroom.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Literal

import numpy as np
import pulp
from numpy.typing import NDArray

from cascadia.planner.allocation.columns import EPS
from cascadia.planner.allocation.demand import JUDGE, Demand, Replicas
from cascadia.planner.allocation.highs import solve, whole
from cascadia.planner.allocation.knapsack import cover
from cascadia.planner.allocation.rent import rent_of
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.search.context import Search
from cascadia.planner.search.reference_tables import References, judge_tokens, stage_tokens
from cascadia.planner.stability.headroom import headroom
from cascadia.planner.tables.packing import packing_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRECISION = 0.002
"""Relative width at which bisections stop."""

LEAST_FACTOR = 1e-4
"""Less than this of today's rate is none: it lies near the solver's own tolerance."""

CLOSER = 8
"""Routings whose factor is worked out with tables of their own."""

SIMULATED = 3
"""Of the deployments that seem to sustain the most so many are simulated..."""
HOPE = 1.1
"""...unless this many times what a next one seems to sustain is less than what one was found to carry."""

APART = 0.005
"""Of routings that differ by less than this part of the requests at every stage only one is worked out."""


def max_rate_rps(search: Search, routings: Ints, *, equal_parts: bool = False) -> float:
    """The highest rate that a deployment of one of `routings` was found to carry; 0 if none carries anything.

    `equal_parts`: each deployed stage (and a judge with GPUs) may take no more than an equal part of the GPUs.
    """
    likely = [k for k, _ in most_sustaining(search, routings, equal_parts=equal_parts)]
    found = (most_capable(search, k, equal_parts=equal_parts) for k in likely)
    return carried_rps(search, [known for known in found if known is not None])


def most_capable(
    search: Search, routing: int, *, equal_parts: bool = False
) -> tuple[float, Deployment] | None:
    """The deployment of a routing that seems to sustain the largest factor of today's rate, and that factor."""
    demands = search.demands(routing)
    if not demands:
        return 1.0, deployment(routing, {})
    covering = partial(_covering, search, demands, equal_parts)
    most = _most_covered(search, demands, equal_parts)
    factor = largest_factor(
        (lambda f: covering(f) is not None) if most is None else lambda f: f * (1 - EPS) <= most
    )
    mixes = covering(factor) if factor > 0 else None
    return None if mixes is None else (factor, deployment(routing, mixes))


def cheapest_carrying(search: Search, routing: int, factor: float) -> Deployment | None:
    """The cheapest deployment of a routing that seems to sustain that factor of today's rate; None where none does.

    Shares are in fractions of levels, so that unequal replicas take what each is able to, across pools too.
    """
    demands = search.demands(routing)
    mixes = _covering(search, demands, False, factor, least="usd") if demands else None
    return None if mixes is None else deployment(routing, mixes)


def carried_rps(search: Search, found: Sequence[tuple[float, Deployment]]) -> float:
    """The highest rate that one of these deployments carries by the certificate of stability; 0: none.

    With each comes the factor that it seems to sustain; those that seem to sustain the most are simulated.
    """
    simulator = search.simulator
    best = 0.0
    for factor, d in sorted(found, key=lambda known: -known[0])[:SIMULATED]:
        if factor * HOPE < best:
            break
        decided = search.decisions(d.routing)
        shares = search.capacities.shares(search.problem, d, decided)
        best = max(best, headroom(simulator, d, decided, shares))
    return best * search.problem.workload.rate_rps


def most_sustaining(
    search: Search, routings: Ints, *, equal_parts: bool = False, most: int = CLOSER
) -> list[tuple[int, float]]:
    """Members of `routings` that seem to sustain the most, with the factor of today's rate that they seem to.

    Of equal ones the lightest come first, and none is nearly another's twin.
    """
    seems = estimates(search, routings, equal_parts)
    # Rounded, so that routings which bisection tells apart by chance are ordered by their load.
    order = np.lexsort((search.routings.reached[routings].sum(axis=1), -np.round(seems, 3)))
    chosen = search.routings.first_apart(routings[order].tolist(), most, APART)
    known = dict(zip(routings.tolist(), seems.tolist(), strict=True))
    return [(k, known[k]) for k in chosen]


def estimates(search: Search, routings: Ints, equal_parts: bool = False) -> Floats:
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
    limits = _limits(search, routings)
    if not work:
        return np.minimum(limits, 1.0)
    part = total // np.maximum(deployed, 1) if equal_parts else np.full(len(routings), total)
    # By ratios and not by differences: factors lie anywhere within nine powers of ten.
    low, high = np.zeros(len(routings)), np.full(len(routings), 1e6)
    for _ in range(60):
        middle = np.sqrt(np.maximum(low, 1e-3) * high)
        needs = [np.where(w > 0, np.searchsorted(covers[s], w * middle - EPS), 0) for s, w in work.items()]
        fits = (np.sum(needs, axis=0) <= total) & (np.max(needs, axis=0) <= part)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.minimum(low, limits)


def _limits(search: Search, routings: Ints) -> Floats:
    """The factor of each routing that the limits of its APIs allow."""
    found = np.full(len(routings), np.inf)
    for s, stage in enumerate(search.problem.stages):
        if stage.external is not None and (limit := stage.external.requests_per_minute):
            sent_rps = search.routings.reached[routings, s] * search.problem.workload.rate_rps
            found = np.minimum(found, limit / 60.0 / np.maximum(sent_rps, EPS))
    return found


def largest_factor(fits: Callable[[float], bool]) -> float:
    """The largest factor that `fits`, of which every smaller one does; 0 if none above `LEAST_FACTOR`."""
    low, high = 0.0, 1.0
    while fits(high) and high < 1e6:
        low, high = high, high * 2
    while high - low > PRECISION * high and high > LEAST_FACTOR:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low if low > LEAST_FACTOR else 0.0


def _covering(
    search: Search,
    demands: Sequence[Demand],
    equal_parts: bool,
    factor: float,
    *,
    least: Literal["gpus", "usd"] = "gpus",
) -> dict[int, Mix] | None:
    """The replicas of the least GPUs, or the least dollars, that sustain `factor` times the demands' work, each sent
    what it can carry; None if there are none.
    """
    program = pulp.LpProblem("throughput", pulp.LpMinimize)
    own = _stated(program, search, demands, factor * (1 - EPS), equal_parts)
    counted = ((shape, n) for d in demands for shape, n in zip(d.shapes, own[d.stage], strict=True))
    program += pulp.lpSum((s.gpus if least == "gpus" else s.usd_per_hour) * n for s, n in counted)
    if not solve(program, 5.0).found:
        return None
    return {
        d.stage: tuple(
            Replicas(shape, whole(count), max(level, EPS))
            for shape, count, level in zip(d.shapes, own[d.stage], d.table.saturated.tolist(), strict=True)
            if whole(count)
        )
        for d in demands
    }


def _most_covered(search: Search, demands: Sequence[Demand], equal_parts: bool) -> float | None:
    """The largest factor of the demands' work that any replicas sustain; None where that is not proven in time."""
    program = pulp.LpProblem("throughput", pulp.LpMaximize)
    factor = program.add_variable("factor", 0)
    program += factor + 0
    _stated(program, search, demands, factor, equal_parts)
    return float(factor.varValue) if solve(program, 5.0).proven else None


def _stated(
    program: pulp.LpProblem,
    search: Search,
    demands: Sequence[Demand],
    factor: float | pulp.LpVariable,
    equal_parts: bool,
) -> dict[int, list[pulp.LpVariable]]:
    """Replicas that the cluster holds and that sustain `factor` times the demands' work: by stage, of each shape."""
    shapes = [shape for d in demands for shape in d.shapes]
    n = [
        program.add_variable(f"n{j:05}", 0, search.budget(shape), pulp.LpInteger)
        for j, shape in enumerate(shapes)
    ]
    columns = iter(n)
    own = {d.stage: list(islice(columns, len(d.shapes))) for d in demands}
    part = search.problem.cluster.gpus // len(demands)
    for d in demands:
        shares = 1.0 / np.maximum(d.table.saturated, EPS)
        program += pulp.lpDot(shares.tolist(), own[d.stage]) >= factor
        if equal_parts:
            program += pulp.lpDot([shape.gpus for shape in d.shapes], own[d.stage]) <= part
    for pool in search.problem.cluster.pools:
        for weights, limit in packing_rows(pool, shapes):
            program += pulp.lpDot(weights, n) <= limit
    if (rent := rent_of(search.problem.cluster, shapes)) is not None:
        rent.add(program, n)
    return own
