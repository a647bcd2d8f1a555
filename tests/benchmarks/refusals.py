"""Small problems that may be refused, and what brute force says of each: every routing, count, mix and share on a grid.

Only the simulator, the certificate, the shapes and the bounds of quality are the planner's; its search, tables and
explanations are what is tested.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.objective import Level, Objective
from cascadia.domain.problem import Judge, Problem
from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.refinement.state import Candidate, Refinement, strain
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.reference_tables import References
from cascadia.planner.stability.repeats import at_rate
from tests.benchmarks.exhaustive import random_problem

SHARES = (0.5, 1.0, 2.0)
"""Shares of unequal replicas, in proportion to what each sustains, times these."""


def drawn(seed: int) -> Problem:
    """One to three models on one to four GPUs, bounded so tightly that about every second is refused."""
    rng = np.random.default_rng([seed, 21])
    given = random_problem(seed, requests=int(rng.choice([60, 120])))
    few = len(given.stages) == 2
    pools = [Pool("a", str(rng.choice(["h100-sxm", "a100-sxm", "l40s"])), 1, int(rng.integers(2, 5)), 2.5)]
    if few and rng.random() < 0.25:
        pools = [replace(pools[0], gpus_per_node=int(rng.integers(1, 3))), Pool("b", "h200-sxm", 1, 1, 3.5)]
    judges = (given.judge, Judge("embedding", "router", latency_p50_s=0.01, latency_p95_s=0.02))
    faster = float(np.exp(rng.uniform(np.log(2.0), np.log(60.0))))
    w = given.workload
    goal = ("cost", "latency")[int(rng.integers(2))]
    limit_s = float(np.exp(rng.uniform(np.log(1.0), np.log(30.0))))
    levels = (Level("ttft", 0.9, limit_s),) if rng.random() < 0.3 else ()
    bar = given.objective.quality_min
    bounded = goal == "cost" and rng.random() < 0.6
    return replace(
        given,
        cluster=Cluster(tuple(pools)),
        judge=judges[int(rng.integers(2))],
        workload=replace(w, arrival_s=w.arrival_s / faster),
        objective=Objective(goal, 0.95, bar, limit_s if bounded else None, levels=levels, within=0.0),
        gears=1,
    )


@dataclass(frozen=True)
class Known:
    """A deployment that holds; its lower bound of quality, dollars an hour, and how strained the bounds are by it."""

    deployment: Deployment
    quality: float
    usd: float
    latency_s: float
    strain: float


def brute(
    problem: Problem, *, bar: float | None = None, bounded: bool = True, most: int = 4000
) -> Known | None:
    """The least strained deployment of at least the `bar` (the problem's where None) that holds; None where none does.

    It stops at the first that keeps all bounds. Raises `ValueError` where there are more than `most` to look at.
    """
    bar = (problem.objective.quality_min or 0.0) if bar is None else bar
    with ThreadPoolExecutor(1) as threads:
        routings = with_bounds(
            problem.quality, all_routings(problem.quality), problem.confidence, problem.seed
        )[0]
        search = replace(start_search(problem, routings, threads), every_shape=True)
        state = Refinement(search, Simulator.of(problem), References.of(search))
        good = np.flatnonzero(routings.lower >= bar).tolist()
        every: list[Deployment] = []
        for k in good:
            every += _deployments(search, k)
            if len(every) > most:
                raise ValueError(f"more than {most} deployments")
        tried = sorted(
            (c for d in every for c in state.simulate([d])), key=lambda c: _strained(problem, c, bounded)
        )
        best: Known | None = None
        for c in tried:
            # One run comes to idle replicas, so what settles is hardly ever faster.
            if best is not None and _strained(problem, c, bounded) >= best.strain:
                break
            if (found := _certified(state, c, bounded)) is not None and (
                best is None or found.strain < best.strain
            ):
                best = found
                if best.strain <= 1.0:
                    break
        return best


def _strained(problem: Problem, c: Candidate, bounded: bool) -> float:
    if bounded and problem.objective.bounds:
        return strain(problem, c)
    return 0.0 if c.load <= 1.1 else 0.5 + c.load / 1e6


def _certified(state: Refinement, c: Candidate, bounded: bool) -> Known | None:
    settled = state.certified(c)
    if settled.certificate is None or not settled.certificate.holds:
        return None
    strained = strain(state.search.problem, settled) if bounded else 0.0
    return Known(c.deployment, c.quality_lower, c.usd_per_hour, settled.latency_s, strained)


def _deployments(search: Search, routing: int) -> Iterator[Deployment]:
    demands = search.demands(routing)
    for mixes in _combined(demands, search.problem.cluster.gpus):
        found = deployment(routing, {d.stage: mix for d, mix in zip(demands, mixes, strict=True)})
        if found.fits(search.problem.cluster):
            yield found


def _combined(demands: list[Demand], gpus: int) -> Iterator[tuple[Mix, ...]]:
    if not demands:
        yield ()
        return
    for mix in _mixes(demands[0], gpus - len(demands) + 1):
        for rest in _combined(demands[1:], gpus - sum(r.shape.gpus * r.count for r in mix)):
            yield mix, *rest


def _mixes(demand: Demand, gpus: int) -> Iterator[Mix]:
    """All multisets of shapes, each with shares on the grid, whether tables say that they keep up or not."""
    counts = product(*(range(gpus // shape.gpus + 1) for shape in demand.shapes))
    for chosen in counts:
        if not 0 < sum(n * s.gpus for n, s in zip(chosen, demand.shapes, strict=True)) <= gpus:
            continue
        equal = tuple(
            Replicas(demand.shapes[s], n, max(float(demand.table.saturated[s]), 1e-6))
            for s, n in enumerate(chosen)
            if n
        )
        for shares in product(SHARES, repeat=len(equal) - 1):
            others = (replace(r, level=r.level / x) for r, x in zip(equal[1:], shares, strict=True))
            yield equal[0], *others


def at_rate_of(problem: Problem, rate_rps: float) -> Problem:
    return at_rate(problem, rate_rps / problem.workload.rate_rps)


def with_bar(problem: Problem, quality_min: float) -> Problem:
    return replace(problem, objective=replace(problem.objective, quality_min=quality_min))


def with_gpus(problem: Problem, name: str | None, gpus: int, nodes: int = 1) -> Problem:
    """With a pool, the only one where no name is given, of so many GPUs on so many nodes."""
    pools = tuple(
        replace(p, nodes=nodes, gpus_per_node=gpus // nodes) if name in (None, p.name) else p
        for p in problem.cluster.pools
    )
    return replace(problem, cluster=Cluster(pools))


@dataclass(frozen=True)
class Named:
    """What a refusal names: a kind of value, the value, and the problem that asks for it."""

    kind: str
    value: float
    problem: Problem


def named(problem: Problem, text: str) -> Iterator[Named]:
    """Every nearest value in the text of a refusal."""
    if m := re.search(r"needs >= (\d+) GPUs (?:in pool (\w+) )?\((?:(\d+) nodes of \d+|on one node)", text):
        kind = "GPUs but bounds" if ", and for" in text else "GPUs"
        yield Named(kind, float(m[1]), with_gpus(problem, m[2], int(m[1]), int(m[3] or 1)))
    if m := re.search(r"([\d.e+-]+) requests/s would hold", text):
        yield Named("rate", float(m[1]), at_rate_of(problem, float(m[1])))
    pattern = (
        r"with \d+ GPUs at [\d.e+-]+ requests/s it is ([\d.]+);"
        if "is above what" in text
        else r"the best is ([\d.]+)"
    )
    if (m := re.search(pattern, text)) or (
        (m := re.search(r"the best is ([\d.]+) at", text)) and "though" not in text
    ):
        yield Named("quality", float(m[1]), with_bar(problem, float(m[1])))
    if m := re.search(r"the lowest found is ([\d.e+-]+) s, with the trace eight times end to end$", text):
        o, wanted = problem.objective, float(m[1])
        alone = o.latency_max_s is not None and "latency_max_s" in text.split("below what")[0]
        asked = (
            replace(o, latency_max_s=wanted)
            if alone
            else replace(o, levels=(replace(o.levels[0], max_s=wanted),))
        )
        yield Named("latency", wanted, replace(problem, objective=asked))
