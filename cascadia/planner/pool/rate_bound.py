"""Bound on the rate that any mixture within a budget carries: a linear program over size classes.

Given      t[i,s]: least seconds of request i on shape s (`fluid.py`); P: the trace's seconds; a[s]: share of the time
           that shape s is there; prices c[p] and what nodes hold, as in `allocation/rent.py`
Variables  f: multiple of the rate; y[i,s]: how often request i is served on s in P; n[s], r[p]: replicas and what is
           rented, in fractions

    maximise f  subject to   sum_s y[i,s] = f  for all i,    sum_i t[i,s] y[i,s] <= P a[s] n[s]  for all s,
                             n packed on r, sum c[p] r[p] <= B

Requests are put into classes of like lengths and the program is solved for these. Its prices u[s] of a second on each
shape then bound the program itself, whatever the classes: f sum_i min_s u[s] t[i,s] <= P max_n sum_s u[s] a[s] n[s].

Kairos' formula (Eq. 9-15) is in `kairos.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.allocation.linear import INF, LinearProgram
from cascadia.planner.allocation.rent import rent_of
from cascadia.planner.pool.fluid import least_s
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.search.context import Search
from cascadia.planner.tables.loads import Load, judge_load, period_ps, stage_load
from cascadia.planner.tables.packing import packing_rows
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUARTERS = 4
"""Classes are quarters by how long a request takes, and of each of these quarters by what it reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Requests of a stage, or of the judge: seconds (shapes, n) of one replica that each takes at the least, and each
    one's class."""

    shapes: tuple[Shape, ...]
    seconds: Floats
    classes: Ints


def work_of(shapes: Sequence[Shape], load: Load) -> Work:
    seconds = np.array([least_s(shape.timing, load) for shape in shapes])
    return Work(tuple(shapes), seconds, classes_of(seconds, load))


def classes_of(seconds: Floats, load: Load) -> Ints:
    """Class [n] of each request, ascending by how long it takes on all shapes together, then by what it reads."""
    found = np.zeros(len(load), np.int64)
    # Each shape counts alike, however slow it is: only the order of the requests is asked for.
    size = (seconds / np.maximum(seconds.mean(axis=1, keepdims=True), 1e-30)).sum(axis=0)
    for k, mine in enumerate(np.array_split(np.argsort(size, kind="stable"), QUARTERS)):
        inner = mine[np.argsort(load.input_tokens[mine], kind="stable")]
        for j, each in enumerate(np.array_split(inner, QUARTERS)):
            found[each] = k * QUARTERS + j
    return found


def works(search: Search, decided: Decisions) -> dict[int, Work]:
    """Work of each stage with requests, and of the judge, under a routing's decisions."""
    problem, reached = search.problem, decided.reached
    found = {}
    for s, shapes in search.shapes.items():
        mine = s == JUDGE
        load = judge_load(problem, reached, decided.judged) if mine else stage_load(problem, s, reached[s])
        if len(load):
            found[s] = work_of(shapes, load)
    return found


def rate_bound_rps(search: Search, routing: int) -> float | None:
    """Requests a second above which no deployment within the cluster's budget and pools serves a routing for long; None
    where it needs no GPU, and no API that has a limit.
    """
    problem, decided = search.problem, search.decisions(routing)
    period_s = period_ps(problem) / PS_PER_S
    factors = [
        api.requests_per_minute / 60.0 * period_s / float(decided.reached[s].sum())
        for s, stage in enumerate(problem.stages)
        if (api := stage.external) is not None and api.requests_per_minute and decided.reached[s].any()
    ]
    if found := list(works(search, decided).values()):
        factors.append(factor_bound(found, problem.cluster, period_s))
    return min(factors) * problem.workload.rate_rps if factors else None


def factor_bound(work: Sequence[Work], cluster: Cluster, period_s: float) -> float:
    """The largest multiple f of the program above."""
    room = _room(cluster, [shape for w in work for shape in w.shapes])
    program = LinearProgram(room.columns + 1)
    held = [{j + 1: x for j, x in row.weights.items()} for row in room.rows]
    for row, weights in zip(room.rows, held, strict=True):
        program.row(weights, -INF, row.limit)
    timed = []
    replicas = iter(range(1, room.columns + 1))
    for w in work:
        counts, mean = by_class(w)
        served = [[program.column() for _ in w.shapes] for _ in counts]
        for mine in served:
            program.row({0: -1.0, **dict.fromkeys(mine, 1.0)}, 0.0, 0.0)
        for s, shape in enumerate(w.shapes):
            seconds = {mine[s]: float(n * t) for mine, n, t in zip(served, counts, mean[s], strict=True)}
            timed.append(program.row(seconds | {next(replicas): -period_s * shape.there}, -INF, 0.0))
    # Any prices that are not below 0 give a bound: a solver's tolerance makes it a little looser, not wrong.
    prices = np.maximum(program.largest({0: 1.0}).prices[timed], 0.0)
    return _by_prices(work, prices, room, period_s)


def by_class(work: Work) -> tuple[Ints, Floats]:
    """Requests of each class, and their mean seconds (shapes, classes)."""
    counts = np.bincount(work.classes)
    kept = np.flatnonzero(counts)
    sums = np.array([np.bincount(work.classes, seconds) for seconds in work.seconds])
    return counts[kept], sums[:, kept] / counts[kept]


def _by_prices(work: Sequence[Work], prices: Floats, room: "_Room", period_s: float) -> float:
    """The bound that prices of a second on each shape prove."""
    needed, first = 0.0, 0
    for w in work:
        mine = prices[first : first + len(w.shapes)]
        needed += float((w.seconds * mine[:, None]).min(axis=0).sum())
        first += len(w.shapes)
    program = LinearProgram(room.columns)
    for row in room.rows:
        program.row(row.weights, -INF, row.limit)
    worth = {j: period_s * float(u) * room.there[j] for j, u in enumerate(prices)}
    return program.largest(worth).value / needed if needed > 0 else np.inf


@dataclass(frozen=True, slots=True)
class _Row:
    weights: dict[int, float]
    limit: float


@dataclass(frozen=True, slots=True)
class _Room:
    """Rows that hold replicas, whose columns come first, then what is rented of each pool. `there` is by replica."""

    columns: int
    there: tuple[float, ...]
    rows: tuple[_Row, ...]


def _room(cluster: Cluster, shapes: Sequence[Shape]) -> _Room:
    there = tuple(shape.there for shape in shapes)
    rows = [
        _Row({j: float(w) for j, w in enumerate(packed.weights) if w}, float(packed.limit))
        for pool in cluster.pools
        for packed in packing_rows(pool, shapes)
    ]
    rent = rent_of(cluster, shapes)
    if rent is None:
        return _Room(len(shapes), there, tuple(rows))
    units = range(len(shapes), len(shapes) + len(rent.most))
    for unit, held in zip(units, rent.rows, strict=True):
        for holds, weights in held:
            taken = {j: float(w) for j, w in enumerate(weights) if w}
            rows.append(_Row(taken | {unit: -float(holds)}, 0.0))
    rows.append(_Row(dict(zip(units, rent.usd, strict=True)), rent.budget_usd))
    rows += [_Row({unit: 1.0}, float(most)) for unit, most in zip(units, rent.most, strict=True)]
    return _Room(len(shapes) + len(rent.most), there, tuple(rows))
