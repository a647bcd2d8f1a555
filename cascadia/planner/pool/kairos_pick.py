"""`--formulation kairos`: nodes rented as Kairos picks them; what stands on them is the integer program's choice.

An instance is the least that can be rented of a pool, with as many replicas of the shape on it that sustains most a
GPU; a query's seconds are the least that it takes of these (`fluid.py`). The base is the pool whose lone answers come
soonest: the others serve the sizes that they answer within `latency_max_s`.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.problem import Problem
from cascadia.planner.pool.fluid import least_s
from cascadia.planner.pool.kairos import Types, configurations, estimates_rps, picked
from cascadia.planner.pool.rate_bound import Work, by_class, work_of
from cascadia.planner.search.context import find_shapes
from cascadia.planner.tables.loads import stage_load
from cascadia.planner.tables.packing import units_needed
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

APART_S = 100_000
"""A lone request comes to an idle replica."""

MOST = 1_000_000
"""Of more configurations than these no estimates are made."""


def on_picked(problem: Problem) -> Problem:
    """`problem` on the nodes that Kairos picks. Raises `BadInput` for what the paper does not serve."""
    cluster = problem.cluster
    if cluster.budget_usd_per_hour is None or len(problem.stages) > 1:
        raise BadInput(
            "--formulation kairos",
            "picks nodes for one stage within a budget",
            "add --budget, and plan each stage by itself; or use --formulation columns",
        )
    load = stage_load(problem, 0, np.ones(len(problem.workload), dtype=bool))
    shapes: dict[str, Shape] = {}
    for shape in find_shapes(problem)[0]:
        here = shapes.get(shape.pool)
        cost = shape.gpus * float(least_s(shape.timing, load).sum())
        if here is None or cost < here.gpus * float(least_s(here.timing, load).sum()):
            shapes[shape.pool] = shape
    work = work_of(tuple(shapes.values()), load)
    counts, mean = by_class(work)
    largest = _largest(work)
    alone = np.array(
        [
            _alone_s(shape, load.input_tokens[largest], load.output_tokens[largest])
            for shape in shapes.values()
        ]
    )
    base = int(alone.mean(axis=1).argmin())
    order = [base, *(j for j in range(len(shapes)) if j != base)]
    within_s = problem.objective.latency_max_s or np.inf
    in_time = alone <= within_s
    in_time[base] = True
    pools = [cluster.pool(list(shapes)[j]) for j in order]
    replicas = np.array([_replicas(pool, shapes[pool.name]) for pool in pools])
    types = Types(mean[order] / replicas[:, None], counts / counts.sum(), in_time[order])
    usd = np.array([_instance_gpus(pool, shapes[pool.name]) * pool.paid_usd_per_gpu_hour for pool in pools])
    most = np.array([pool.gpus // _instance_gpus(pool, shapes[pool.name]) for pool in pools])
    if np.prod(most + 1.0) > MOST:
        raise BadInput("--formulation kairos", "there are over a million configurations", "lower the budget")
    configs = configurations(usd, most, cluster.budget_usd_per_hour)
    chosen = configs[picked(configs, estimates_rps(types, configs))]
    kept = []
    for pool, instances in zip(pools, chosen.tolist(), strict=True):
        if instances:
            gpus = instances * _instance_gpus(pool, shapes[pool.name])
            kept.append(replace(pool, nodes=-(-gpus // pool.gpus_per_node)))
    spent = sum(n * price for n, price in zip(chosen.tolist(), usd.tolist(), strict=True))
    rented = replace(cluster, pools=tuple(kept), budget_usd_per_hour=spent)
    return replace(problem, cluster=rented)


def _replicas(pool: Pool, shape: Shape) -> int:
    """Replicas of a shape on one instance, or what part of one stands on it."""
    return max(_instance_gpus(pool, shape) // shape.gpus, 1)


def _instance_gpus(pool: Pool, shape: Shape) -> int:
    """GPUs of one instance: of the least that can be rented and holds the shape."""
    return units_needed(pool, [(shape, 1)]) * pool.unit_gpus


def _largest(work: Work) -> Ints:
    """The request of each class that takes longest on the first shape."""
    order = np.argsort(work.seconds[0], kind="stable")
    last = dict(zip(work.classes[order].tolist(), order.tolist(), strict=True))
    return np.array([last[k] for k in sorted(last)])


def _alone_s(shape: Shape, read: Ints, wrote: Ints) -> Floats:
    """Seconds of each request on an idle replica."""
    arrival = np.arange(len(read), dtype=np.int64) * APART_S * PS_PER_S
    run = simulate_replica(shape.timing, arrival, read, wrote, np.zeros(len(read), np.int64))
    found: Floats = (run.finish_ps - arrival) / PS_PER_S
    return found
