"""Pairs of problems of which the second offers more, and must therefore not get a worse plan."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import routings_of, solver
from cascadia.planner.refinement.refine import Effort, rank
from cascadia.planner.refinement.supersets import best_of_parts
from cascadia.planner.search.context import allowed, start_search
from tests.benchmarks.exhaustive import random_problem

TOLERANCE = 1e-9
SOME = Effort(simulated_requests=30_000)
"""A tenth of what planning does, so that many pairs can be tried: what is promised holds for any effort."""
GPUS = {"h100-sxm": 2.95, "l40s": 0.9, "a100-sxm": 1.6, "h200-sxm": 3.6}


@dataclass(frozen=True)
class Pair:
    """What the second has more of, and both problems."""

    what: str
    less: Problem
    more: Problem
    efforts: tuple[Effort | None, Effort | None] = (SOME, SOME)
    limits_s: tuple[float, float] = (inf, inf)

    @property
    def values(self) -> tuple[float, float]:
        return tuple(map(best_value, (self.less, self.more), self.efforts, self.limits_s))  # type: ignore[return-value]


def best_value(problem: Problem, effort: Effort | None = None, time_limit_s: float = inf) -> float:
    """What the goal compares of the best plan, before `within`: the less the better; infinite where there is none."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        try:
            search = start_search(problem, routings_of(problem)[0], threads, Deadline(time_limit_s))
        except BadInput:
            return float("inf")
        if not allowed(search).any():
            return float("inf")
        of = partial(solver, formulation="columns")
        best = best_of_parts(search, of, effort, lambda _: None).best
    return float("inf") if best is None else rank(problem, best)[0]


def worse(pair: Pair) -> float:
    """By how much (a share) the plan with more is worse than the one with less; 0 where it is not."""
    less, more = pair.values
    if more <= less + TOLERANCE * abs(less) or np.isinf(less):
        return 0.0
    return float("inf") if np.isinf(more) else abs(more - less) / max(abs(less), 1e-12)


def drawn(seed: int, pools: int, requests: int = 200) -> Problem:
    """A random cascade with a random goal on `pools` pools of different GPUs, prices and sizes."""
    rng = np.random.default_rng([seed, 7])
    problem = random_problem(seed, requests=requests)
    names = rng.choice(list(GPUS), size=pools, replace=False).tolist()
    made = tuple(
        Pool(
            name,
            name,
            int(rng.integers(1, 4)),
            int(rng.choice([2, 4, 8])),
            round(GPUS[name] * float(rng.uniform(0.7, 1.4)), 2),
        )
        for name in names
    )
    busier = float(rng.choice([1.0, 2.0, 4.0]))
    w = problem.workload
    problem = replace(problem, cluster=Cluster(made), workload=replace(w, arrival_s=w.arrival_s / busier))
    bar, limit_s = problem.objective.quality_min, float(rng.choice([5.0, 10.0, 20.0, 60.0]))
    goals = (
        Objective("latency", 0.95, bar),
        Objective("cost", 0.95, bar, limit_s),
        Objective("quality", 0.95, None, limit_s),
    )
    return replace(problem, objective=goals[int(rng.integers(3))])


def pools_pair(seed: int) -> Pair:
    """One pool of two or three is left out."""
    rng = np.random.default_rng([seed, 8])
    more = drawn(seed, int(rng.integers(2, 4)))
    out = int(rng.integers(len(more.cluster.pools)))
    kept = tuple(p for at, p in enumerate(more.cluster.pools) if at != out)
    return Pair("a pool more", replace(more, cluster=Cluster(kept)), more)


def nodes_pair(seed: int) -> Pair:
    """One pool has more nodes."""
    rng = np.random.default_rng([seed, 9])
    less = drawn(seed, 1)
    (pool,) = less.cluster.pools
    larger = replace(pool, nodes=pool.nodes + int(rng.integers(1, 5)))
    return Pair("nodes more", less, replace(less, cluster=Cluster((larger,))))


def effort_pair(seed: int) -> Pair:
    problem = drawn(seed, 1)
    double = replace(
        SOME,
        routings=2 * SOME.routings,
        combinations=2 * SOME.combinations,
        simulated_requests=2 * SOME.simulated_requests,
    )
    return Pair("twice the effort", problem, problem, (SOME, double))


def time_pair(seed: int) -> Pair:
    problem = drawn(seed, 1)
    return Pair("more time", problem, problem, limits_s=(0.5, inf))


def bound_pair(seed: int) -> Pair:
    """A looser bound: of latency, else of quality."""
    more = drawn(seed, 1)
    o = more.objective
    if o.latency_max_s is not None:
        return Pair(
            "a looser bound", replace(more, objective=replace(o, latency_max_s=o.latency_max_s / 2)), more
        )
    lower = routings_of(more)[0].lower
    tighter = float(np.quantile(lower, 0.5 + 0.5 * np.mean(lower < (o.quality_min or 0.0))))
    return Pair("a looser bound", replace(more, objective=replace(o, quality_min=tighter)), more)


def stages_pair(seed: int) -> Pair:
    """A stage more is offered, and may be left out."""
    more = drawn(seed, 1)
    kept = list(range(1, len(more.stages)))
    w, q = more.workload, more.quality
    less = replace(
        more,
        stages=tuple(more.stages[s] for s in kept),
        workload=replace(w, input_tokens=w.input_tokens[kept], output_tokens=w.output_tokens[kept]),
        quality=replace(
            q,
            stages=tuple(q.stages[s] for s in kept),
            score=q.score[kept],
            quality=q.quality[kept],
            input_tokens=q.input_tokens[kept],
            output_tokens=q.output_tokens[kept],
        ),
    )
    return Pair("a stage more", less, more)


KINDS: dict[str, Callable[[int], Pair]] = {
    "pools": pools_pair,
    "nodes": nodes_pair,
    "effort": effort_pair,
    "time": time_pair,
    "bounds": bound_pair,
    "stages": stages_pair,
}
