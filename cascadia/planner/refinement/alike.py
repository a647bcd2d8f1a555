"""Deployments in which a stage's replicas are all alike, and the steps from one to those beside it.

A baseline that gives each model one shape on one pool moves among these alone: a replica more or fewer, a stage in
another shape or on another pool, with as many replicas as its GPUs and the idle ones allow, and GPUs from one stage to
another. Idle GPUs go to whichever stage has the most work for each of its replicas.
"""

from collections.abc import Iterator, Mapping

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.tables.shapes import Shape

Alike = dict[int, tuple[Shape, int]]
"""Shape and number of replicas by `Demand.stage`."""


def deployed_alike(routing: int, chosen: Alike) -> Deployment:
    return deployment(routing, {s: (Replicas(shape, n, float(n)),) for s, (shape, n) in chosen.items()})


def read_alike(found: Deployment) -> Alike:
    return {s: (mix[0].shape, mix[0].count) for s, mix in found.mixes}


def filled(
    routing: int, chosen: Alike, demands: Mapping[int, Demand], parts: Mapping[int, float], cluster: Cluster
) -> Alike:
    """`chosen` with a replica more for the stage that has the most work a replica, while one fits."""
    room = True
    while room:
        order = sorted(chosen, key=lambda s: -_work_each(chosen, demands, parts, s))
        room = False
        for s in order:
            shape, count = chosen[s]
            more = chosen | {s: (shape, count + 1)}
            if deployed_alike(routing, more).fits(cluster):
                chosen, room = more, True
                break
    return chosen


def _work_each(chosen: Alike, demands: Mapping[int, Demand], parts: Mapping[int, float], stage: int) -> float:
    shape, count = chosen[stage]
    at = next(i for i, each in enumerate(demands[stage].shapes) if each is shape)
    return parts[stage] * float(demands[stage].table.saturated[at]) / count


def steps(here: Deployment, demands: Mapping[int, Demand], cluster: Cluster) -> Iterator[Deployment]:
    """Deployments beside `here` that fit."""
    chosen = read_alike(here)
    for after in _changed(chosen, demands, cluster):
        found = deployed_alike(here.routing, after)
        if all(n > 0 for _, n in after.values()) and found.fits(cluster):
            yield found


def _changed(chosen: Alike, demands: Mapping[int, Demand], cluster: Cluster) -> Iterator[Alike]:
    idle = {
        p.name: p.gpus - sum(s.gpus * n for s, n in chosen.values() if s.pool == p.name)
        for p in cluster.pools
    }
    for stage, (shape, count) in chosen.items():
        yield chosen | {stage: (shape, count + 1)}
        yield chosen | {stage: (shape, count - 1)}
        for other in demands[stage].shapes:
            if other is not shape:
                room = idle[other.pool] + (shape.gpus * count if other.pool == shape.pool else 0)
                alike = max(1, round(shape.gpus * count / other.gpus))
                for n in {room // other.gpus, min(alike, room // other.gpus)}:
                    yield chosen | {stage: (other, n)}
        for giver, (given, has) in chosen.items():
            if giver != stage and given.pool == shape.pool:
                taken = -(-max(shape.gpus - idle[shape.pool], 0) // given.gpus)
                more = (idle[shape.pool] + taken * given.gpus) // shape.gpus
                yield chosen | {stage: (shape, count + more), giver: (given, has - taken)}
