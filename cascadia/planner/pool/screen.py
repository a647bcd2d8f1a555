"""The few of many GPUs on offer that are searched: those that serve some stage cheapest, or fastest.

A search looks at every combination of its pools, so that it takes twice as long for each. Where GPUs of more kinds than
`MOST` are offered one by one (`pools: any`), kept are, stage by stage, the kind on which all of its requests cost least
(by their least time, `fluid.py`), then the one that answers a lone request soonest, then the next cheapest.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.pool.fluid import least_s
from cascadia.planner.search.context import find_shapes
from cascadia.planner.tables.loads import Load, at_gates, judge_load, stage_load
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.engine.replica import simulate_replica

MOST = 3


def screened(problem: Problem, beyond: Mapping[int, Shape]) -> Problem:
    """`problem` on the kinds that are worth a search, which a note names.

    Stages `beyond` the budget keep the pools of their shapes.
    """
    pools, pinned = problem.cluster.pools, {shape.pool for shape in beyond.values()}
    offered = [pool for pool in pools if pool.rent == "gpu" and pool.name not in pinned]
    if len(offered) <= MOST:
        return problem
    kept = set(islice(dict.fromkeys(_in_order(problem, {pool.name for pool in offered}, beyond)), MOST))
    said = ", ".join(pool.name for pool in offered if pool.name in kept)
    note = (
        f"of {len(offered)} kinds of GPU within the budget, searched were those on which a stage is cheapest or"
        f" fastest: {said}; list pools to have others"
    )
    dropped = {pool.name for pool in offered} - kept
    others = tuple(pool for pool in pools if pool.name not in dropped)
    return replace(problem, cluster=replace(problem.cluster, pools=others), notes=(*problem.notes, note))


def _in_order(problem: Problem, names: set[str], beyond: Container[int]) -> Iterator[str]:
    """Kinds, best first; some come several times."""
    orders = [
        _orders([shape for shape in choices if shape.pool in names], _load(problem, s))
        for s, choices in find_shapes(problem).items()
        if s not in beyond
    ]
    for cheapest, _ in orders:
        yield from cheapest[:1]
    for _, fastest in orders:
        yield from fastest[:1]
    for cheapest, _ in orders:
        yield from cheapest[1:]


def _load(problem: Problem, stage: int) -> Load:
    if stage != JUDGE:
        return stage_load(problem, stage, np.ones(len(problem.workload), dtype=bool))
    gates = at_gates(problem)
    return judge_load(problem, np.ones_like(gates), gates)


def _orders(shapes: list[Shape], load: Load) -> tuple[list[str], list[str]]:
    """Kinds by what all requests cost at the least, and by how soon a lone one of middling length is answered."""
    usd: dict[str, float] = {}
    alone: dict[str, float] = {}
    for shape in shapes:
        price = shape.usd_per_hour * float(least_s(shape.timing, load).sum()) / shape.there
        usd[shape.pool] = min(price, usd.get(shape.pool, np.inf))
        alone[shape.pool] = min(_alone_ps(shape, load), alone.get(shape.pool, np.inf))
    return sorted(usd, key=lambda name: usd[name]), sorted(alone, key=lambda name: alone[name])


def _alone_ps(shape: Shape, load: Load) -> float:
    read, wrote = (np.array([int(np.median(x))]) for x in (load.input_tokens, load.output_tokens))
    nothing = np.zeros(1, np.int64)
    return float(simulate_replica(shape.timing, nothing, read, wrote, nothing).finish_ps[0])
