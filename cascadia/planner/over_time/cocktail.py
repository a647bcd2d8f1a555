"""Autoscaling of one model with a perfect forecast, as Cocktail+ (CascadeServe section 6.2).

Each interval has as many replicas as its busiest stretch needs, with some room. They are asked for early enough to
be ready when it begins, since the forecast is the truth; those of the interval before stay until then.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.workload import Floats
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.over_time.settings import OverTime, Stage
from cascadia.planner.tables.shapes import Shape
from cascadia_sim.cascade.rolling import CascadeRequests, RollingCascade
from cascadia_sim.iteration.timing import PS_PER_S

Ints = NDArray[np.int64]

INTERVALS_S = (60.0, 300.0)
ROOM = (1.1, 1.4, 1.8)
"""Replicas are for so many times the interval's largest rate."""
STARTUP_S = 60.0
"""An engine's start, weights included."""


def cocktail(stage: Stage) -> list[OverTime]:
    """Outcomes of each model alone, over the grid of intervals and room."""
    found = []
    for demand, _ in stage.search.whole_demands():
        if demand.stage < 0:
            continue
        at = int(
            np.argmin(
                [s * shape.gpus for s, shape in zip(demand.table.saturated, demand.shapes, strict=True)]
            )
        )
        for interval_s in INTERVALS_S:
            for room in ROOM:
                needed = float(demand.table.saturated[at]) * room
                found.append(_scaled(stage, demand.stage, demand.shapes[at], needed, interval_s))
    return found


def _scaled(stage: Stage, model: int, shape: Shape, needed: float, interval_s: float) -> OverTime:
    """`needed` replicas at the trace's mean rate."""
    problem = stage.simulator.problem
    arrival_s = stage.simulator.arrivals / PS_PER_S
    w, most = problem.workload, problem.cluster.pool(shape.pool).gpus // shape.gpus
    counts = [max(1, min(most, n)) for n in _counts(arrival_s, needed, interval_s, w.rate_rps)]
    lengths = w.input_tokens[model : model + 1], w.output_tokens[model : model + 1]
    cascade = RollingCascade(CascadeRequests(stage.simulator.arrivals, *lengths), None)
    lanes = [cascade.open(0, shape.timing) for _ in range(counts[0])]
    cascade.route((0,), np.ones((1, len(arrival_s)), bool))
    gpu_s = 0.0
    for at, (now, following) in enumerate(pairwise([*counts, counts[-1]])):
        gpu_s += interval_s * now * shape.gpus + max(following - now, 0) * shape.gpus * STARTUP_S
        cascade.advance(round((at + 1) * interval_s * PS_PER_S))
        lanes += [cascade.open(0, shape.timing) for _ in range(following - now)]
        for lane in lanes[following:]:
            cascade.close(lane)
        del lanes[following:]
    cascade.finish()
    latency_s: Floats = (cascade.answers().finish_ps - stage.simulator.arrivals) / PS_PER_S
    name = problem.stages[model].name
    return OverTime(
        "cocktail",
        float((latency_s > stage.bound_s).mean()),
        float(problem.quality.quality[model, w.row].mean()),
        p50_s=quantile_s(latency_s, 0.5),
        p95_s=quantile_s(latency_s, 0.95),
        gpus=max(counts) * shape.gpus,
        usd_per_hour=gpu_s / (len(counts) * interval_s) * shape.usd_per_hour / shape.gpus,
        switches=int(np.abs(np.diff(counts)).sum()),
        setting=np.zeros(len(arrival_s), np.int64),
        latency_s=latency_s,
        tuned=f"{name}, {min(counts)} to {max(counts)} replicas, each {interval_s:g} s",
    )


def _counts(arrival_s: Floats, needed: float, interval_s: float, mean_rps: float) -> Iterator[int]:
    """Replicas in each interval, for its largest rate over a tenth of it."""
    part_s = interval_s / 10
    parts = np.bincount((arrival_s / part_s).astype(np.int64)) / part_s
    for first in range(0, len(parts), 10):
        yield int(np.ceil(needed * parts[first : first + 10].max() / mean_rps))
