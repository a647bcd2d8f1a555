"""Loss of a node: what the rest of a plan still promises until another takes its place.

Of each pool the node is looked at on which most of some stage stands, as first fit decreasing lays replicas; where GPUs
are rented one by one, the largest replica stands alone. Requests then go as the router sends them: past a stage that
has no replica left to the next, or after the last to the best answer before it; without a judge verdicts fail at once,
and nothing is accepted before the last (thinking is taken to be as long as before). Where the plan has gears, the first
that carries today's rate serves them, else that which carries most.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.domain.plan import NodeLoss
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.routing.routings import ACCEPTS_NONE, Decisions, Routings, decided
from cascadia.planner.search.context import Search
from cascadia.planner.stability.certificate import certify
from cascadia.planner.stability.headroom import headroom

Replica = tuple[int, int]
"""Stage (or `JUDGE`), and which of its mix's entries."""


def node_losses(search: Search, here: Deployment, routings: Sequence[int]) -> tuple[NodeLoss, ...]:
    """Losses by pool. `routings`: the plan's own, or its gears', heaviest first. None where nothing says that nodes
    come and go: no budget rents them, and none is a spot node.
    """
    cluster = search.problem.cluster
    if cluster.budget_usd_per_hour is None and not any(pool.on_spot for pool in cluster.pools):
        return ()
    used = (pool for pool in cluster.pools if here.gpus_of(pool.name))
    return tuple(_loss(search, here, pool, routings) for pool in used)


def _loss(search: Search, here: Deployment, pool: Pool, routings: Sequence[int]) -> NodeLoss:
    node = max(nodes_of(pool, here), key=lambda lost: _share(here, lost))
    mixes = {
        s: tuple(replace(r, count=r.count - node[s, i]) for i, r in enumerate(mix) if r.count > node[s, i])
        for s, mix in here.mixes
    }
    gone = {s for s, mix in mixes.items() if not mix}
    rest = deployment(here.routing, {s: mix for s, mix in mixes.items() if mix})
    names = tuple(
        "judge" if s == JUDGE else search.problem.stages[s].name for s in sorted(gone) if here.mix(s)
    )
    left = [found for k in routings if (found := _left(search, rest, k, gone)) is not None]
    most = max((carried for carried, _ in left), default=0.0)
    gear = next((g for g, (carried, _) in enumerate(left) if carried >= min(1.0, most)), 0)
    spot = pool.spot if pool.on_spot else None
    taken = here.rented(pool) if pool.rent == "node" else len(list(nodes_of(pool, here)))
    told = NodeLoss(
        pool.name,
        gpus=sum(count * here.mix(s)[i].shape.gpus for (s, i), count in node.items()),
        interruptions_per_day=0.0 if spot is None else taken * spot.interruptions_per_day,
        without=names,
    )
    if not most:
        return told
    carried, after = left[gear]
    problem = _left_with(search.problem, gone)
    settled = certify(Simulator.of(problem), rest, after.requests, {}, factor=min(carried, 1.0))
    return replace(
        told,
        rate_rps=carried * problem.workload.rate_rps,
        latency_s=settled.stability.objective_once_s,
        quality=after.quality,
        gear=gear if len(routings) > 1 else None,
    )


def _share(here: Deployment, lost: Counter[Replica]) -> float:
    """The largest part of a stage's replicas, by what they carry, that is lost."""
    gone: defaultdict[int, float] = defaultdict(float)
    for (s, i), count in lost.items():
        gone[s] += count / here.mix(s)[i].level
    return max(part / sum(r.count / r.level for r in here.mix(s)) for s, part in gone.items())


def nodes_of(pool: Pool, here: Deployment) -> Iterator[Counter[Replica]]:
    """Replicas that end with each node of `pool` in use; one that lies on several ends with each of them."""
    each = [(r.shape, (s, i)) for s, mix in here.mixes for i, r in enumerate(mix) for _ in range(r.count)]
    mine = sorted((x for x in each if x[0].pool == pool.name), key=lambda x: -x[0].tp)
    if pool.rent == "gpu":
        yield from (Counter({key: 1}) for _, key in mine)
        return
    free: list[int] = []
    on: list[set[tuple[int, Replica]]] = []
    for number, (shape, key) in enumerate(mine):
        for _ in range(shape.pp):
            at = next((node for node, room in enumerate(free) if room >= shape.tp), len(free))
            if at == len(free):
                free.append(pool.gpus_per_node)
                on.append(set())
            free[at] -= shape.tp
            on[at].add((number, key))
    yield from (Counter(key for _, key in there) for there in on)


def _left_with(problem: Problem, gone: set[int]) -> Problem:
    """`problem` with a judge that says nothing, and takes no time for it, where the judge is gone."""
    if JUDGE not in gone:
        return problem
    silent = replace(problem.judge, placement="external", latency_p50_s=0.0, latency_p95_s=0.0)
    return replace(problem, judge=silent)


class _After(NamedTuple):
    requests: Decisions
    quality: float


def _left(search: Search, rest: Deployment, routing: int, gone: set[int]) -> tuple[float, _After] | None:
    """Multiple of the rate that the rest carries by a routing; None where it leaves nobody to answer."""
    problem = _left_with(search.problem, gone)
    after = _after(problem, search.routings, routing, gone)
    if after is None:
        return None
    used = deployment(
        routing, {s: mix for s, mix in rest.mixes if s == JUDGE or after.requests.reached[s].any()}
    )
    shares = search.capacities.shares(problem, used, after.requests)
    return headroom(Simulator.of(problem), used, after.requests, shares), after


def _after(problem: Problem, routings: Routings, k: int, gone: set[int]) -> _After | None:
    """Decisions on the requests, and quality over the table, without the stages that are gone."""
    own = _without(problem, routings, k, gone)
    if own is None:
        return None
    rows, quality = problem.workload.row, problem.quality.quality
    prompts = np.arange(quality.shape[1])
    reached, mean = own.take(rows), float(quality[own.answered_by, prompts].mean())
    if routings.mixed is None or routings.mixed.share[k] <= 0:
        return _After(reached, mean)
    other = _without(problem, routings.mixed.other, k, gone)
    if other is None:
        return None
    share = float(routings.mixed.share[k])
    mean = (1 - share) * mean + share * float(quality[other.answered_by, prompts].mean())
    return _After(reached.mixed(other.take(rows), share), mean)


def _without(problem: Problem, routings: Routings, k: int, gone: set[int]) -> Decisions | None:
    deployed: NDArray[np.bool_] = routings.deployed[k].copy()
    deployed[[s for s in gone if s != JUDGE]] = False
    if not deployed.any():
        return None
    skips = None if routings.skip_below is None else routings.skip_below[k]
    if JUDGE not in gone:
        return decided(problem.quality, deployed, routings.thresholds[k], skips)
    return decided(problem.quality, deployed, np.full(len(deployed) - 1, ACCEPTS_NONE), skips)
