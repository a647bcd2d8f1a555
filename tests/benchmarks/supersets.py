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
from cascadia.domain.errors import BadInput, Infeasible, OutOfTime
from cascadia.domain.external import External
from cascadia.domain.objective import GEARS, Goal, Objective
from cascadia.domain.problem import EXTERNAL, Problem
from cascadia.planner.plan import plan, routings_of, solver
from cascadia.planner.refinement.refine import Effort, rank
from cascadia.planner.refinement.supersets import best_of_parts
from cascadia.planner.search.context import allowed, start_search
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation
from tests.benchmarks.across_goals import (
    AcrossGoals,
    bound_of_the_fastest,
    cost_of_the_best,
    fastest_within_less,
    quality_of_the_cheapest,
    quality_of_the_fastest,
)
from tests.benchmarks.exhaustive import compared, random_problem
from tests.unit.planner.pointed import with_exits

TOLERANCE = 1e-9
SOME = Effort(simulated_requests=30_000)
"""A tenth of what planning does, so that many pairs can be tried: what is promised holds for any effort."""
FEW = Effort(simulated_requests=4000, routings=3, combinations=300)
"""Of pairs of whole plans, which take several searches each."""
GPUS = {"h100-sxm": 2.95, "l40s": 0.9, "a100-sxm": 1.6, "h200-sxm": 3.6}


@dataclass(frozen=True)
class Pair:
    """What the second has more of, and both problems."""

    what: str
    less: Problem
    more: Problem
    efforts: tuple[Effort | None, Effort | None] = (SOME, SOME)
    limits_s: tuple[float, float] = (inf, inf)
    whole: bool = False
    """Of the whole plan, exits and gears included, not of the search alone."""
    passed_over: int | None = None
    """Stage that the one with less may not deploy; its bounds on quality are then those of the one with more."""

    @property
    def values(self) -> tuple[float, float]:
        value = planned_value if self.whole else best_value
        if self.passed_over is not None:
            return best_value(self.less, SOME, without=self.passed_over), best_value(self.more, SOME)
        return tuple(map(value, (self.less, self.more), self.efforts, self.limits_s))  # type: ignore[return-value]


def best_value(
    problem: Problem, effort: Effort | None = None, time_limit_s: float = inf, *, without: int | None = None
) -> float:
    """What the goal compares of the best plan, before `within`: the less the better; infinite where there is none.

    `without`: of the routings that leave out this stage.
    """
    routings = routings_of(problem)[0]
    if without is not None:
        routings = routings.take(~routings.deployed[:, without])
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        try:
            search = start_search(problem, routings, threads, Deadline(time_limit_s))
        except (BadInput, Infeasible):
            return float("inf")
        if not allowed(search).any():
            return float("inf")
        of = partial(solver, formulation="columns")
        best = best_of_parts(search, of, effort, lambda _: None).best
    return float("inf") if best is None else rank(problem, best)[0]


def planned_value(problem: Problem, effort: Effort | None = None, time_limit_s: float = inf) -> float:
    """The same of the finished plan, as it tells it."""
    try:
        result = plan(problem, effort=effort, deadline=Deadline(time_limit_s))
    except (BadInput, Infeasible, OutOfTime):
        return inf
    return compared(problem, result.plan.predicted)


def worse(pair: Pair | AcrossGoals) -> float:
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


def fast_pools_pair(seed: int) -> Pair:
    """The same for the least latency, whose search looks for cheaper plans too."""
    pair = pools_pair(seed)
    bar = pair.more.objective.quality_min or random_problem(seed, requests=200).objective.quality_min
    asked = Objective("latency", 0.95, bar)
    less, more = (replace(p, objective=asked) for p in (pair.less, pair.more))
    return Pair("a pool more, for latency", less, more)


def nodes_pair(seed: int) -> Pair:
    """One pool has more nodes."""
    rng = np.random.default_rng([seed, 9])
    less = drawn(seed, 1)
    (pool,) = less.cluster.pools
    larger = replace(pool, nodes=pool.nodes + int(rng.integers(1, 5)))
    return Pair("nodes more", less, replace(less, cluster=Cluster((larger,))))


def of_quality(make: Callable[[int], Pair], seed: int) -> Pair:
    """The same of whole plans for the best quality, mixtures included."""
    pair = make(seed)
    limit_s = float(np.random.default_rng([seed, 14]).choice([5.0, 10.0, 20.0, 60.0]))
    asked = Objective("quality", 0.95, None, limit_s)
    tighter = replace(asked, latency_max_s=limit_s / 2) if make is bound_pair else asked
    less, more = replace(pair.less, objective=tighter), replace(pair.more, objective=asked)
    return Pair(f"{pair.what}, for quality", less, more, efforts=(FEW, FEW), whole=True)


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


def price_pair(seed: int) -> Pair:
    """One pool is cheaper."""
    rng = np.random.default_rng([seed, 15])
    less = drawn(seed, int(rng.integers(1, 3)))
    at, factor = int(rng.integers(len(less.cluster.pools))), float(rng.choice([0.4, 0.7, 0.95]))
    pools = list(less.cluster.pools)
    pools[at] = replace(pools[at], usd_per_gpu_hour=factor * pools[at].usd_per_gpu_hour)
    return Pair("a cheaper pool", less, replace(less, cluster=Cluster(tuple(pools))))


def rate_pair(seed: int) -> Pair:
    """Requests come more slowly. Of what is bounded: a latency may rise by a few per cent as batches meet otherwise."""
    rng = np.random.default_rng([seed, 16])
    less = drawn(seed, int(rng.integers(1, 3)))
    if less.objective.goal == "latency":
        limit_s = float(rng.choice([5.0, 10.0, 20.0, 60.0]))
        less = replace(less, objective=Objective("cost", 0.95, less.objective.quality_min, limit_s))
    w = less.workload
    slower = replace(w, arrival_s=w.arrival_s * float(rng.choice([1.02, 1.1, 1.3, 2.0])))
    return Pair("a lower rate", less, replace(less, workload=slower))


def fleet(
    seed: int, goal: Goal, nodes: int, rng: np.random.Generator, busier: tuple[float, ...] = (8.0, 16.0, 32.0)
) -> Problem:
    """A random cascade for a fleet of eight GPUs a node, as specs leave it: tokens an iteration open, and eight
    gears."""
    found, limit_s = random_problem(seed, requests=4000), float(rng.choice([5.0, 10.0, 20.0, 60.0]))
    pool = Pool("h100-sxm", "h100-sxm", nodes, 8, GPUS["h100-sxm"])
    bar = None if goal == "quality" else found.objective.quality_min
    w, judge = found.workload, found.judge
    return replace(
        found,
        cluster=Cluster((pool,)),
        objective=Objective(goal, 0.95, bar, limit_s),
        workload=replace(w, arrival_s=w.arrival_s / float(rng.choice(busier))),
        stages=tuple(replace(s, searches_batch_tokens=True) for s in found.stages),
        judge=replace(judge, searches_batch_tokens=judge.config is not None),
        gears=GEARS,
    )


def fleet_rate_pair(seed: int) -> Pair:
    """A lower rate of whole plans of fleets of up to 128 GPUs."""
    rng = np.random.default_rng([seed, 17])
    less = fleet(seed, "cost", 16, rng)
    w = less.workload
    slower = replace(w, arrival_s=w.arrival_s * float(rng.choice([1.02, 1.05, 1.1, 1.3])))
    pair = Pair("a lower rate of a fleet", less, replace(less, workload=slower))
    return replace(pair, efforts=(None, None), whole=True)


def fleet_tokens_pair(seed: int) -> Pair:
    """The spec leaves open what it named: few tokens an iteration, or many."""
    rng = np.random.default_rng([seed, 18])
    goals: tuple[Goal, ...] = ("quality", "rate", "cost")
    more = fleet(seed, goals[seed % 3], int(rng.choice([2, 4])), rng, (24.0, 48.0, 96.0))
    tokens = int(rng.choice([512, 512, 2048, 8192]))
    stages = tuple(
        replace(s, config=replace(s.config, max_num_batched_tokens=tokens), searches_batch_tokens=False)
        for s in more.stages
    )
    judge = more.judge
    if judge.config is not None:
        named = replace(judge.config, max_num_batched_tokens=tokens)
        judge = replace(judge, config=named, searches_batch_tokens=False)
    less = replace(more, stages=stages, judge=judge)
    return Pair("tokens an iteration open", less, more, efforts=(None, None), whole=True)


def stages_pair(seed: int) -> Pair:
    """A stage more is offered, and may be left out."""
    more = drawn(seed, 1)
    return Pair("a stage more", _of_stages(more, list(range(1, len(more.stages)))), more)


def stages_known_pair(seed: int) -> Pair:
    """The same, where quality is known as well without it as with it: a model more widens every bound a little."""
    more = drawn(seed, 1)
    return Pair("a stage more at the same bounds", more, more, passed_over=seed % len(more.stages))


def _of_stages(more: Problem, kept: list[int]) -> Problem:
    w, q = more.workload, more.quality
    return replace(
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


def exits_pair(seed: int) -> Pair:
    """The first stage may answer before it has thought to the end."""
    rng = np.random.default_rng([seed, 10])
    bar, limit_s = float(rng.uniform(55.0, 76.0)), float(rng.choice([20.0, 40.0, 120.0]))
    objective = (
        Objective("latency", 0.95, bar, within=0.0),
        Objective("cost", 0.95, bar, limit_s),
        Objective("quality", 0.95, None, limit_s),
    )[int(rng.integers(3))]
    more = with_exits(objective, seed, requests=60, rate_rps=float(rng.choice([3.0, 12.0])))
    return Pair("exits", replace(more, points=None), more, efforts=(FEW, FEW), whole=True)


def speculation_pair(seed: int) -> Pair:
    """Every engine may draft, often for nothing."""
    rng = np.random.default_rng([seed, 11])
    less = drawn(seed, int(rng.integers(1, 3)))
    stages = tuple(
        replace(
            s,
            config=replace(s.config, speculation=drafts),
            may_draft=drafts,
        )
        for s in less.stages
        for drafts in [Speculation("ngram", 4, float(rng.uniform(0.0, 0.8)))]
    )
    objective = replace(less.objective, within=0.0)
    less = replace(less, objective=objective)
    return Pair("speculation", less, replace(less, stages=stages), efforts=(FEW, FEW), whole=True)


def external_pair(seed: int) -> Pair:
    """Behind the cascade, an API may be asked."""
    rng = np.random.default_rng([seed, 12])
    more, api = (
        drawn(seed, 1),
        External(
            float(rng.uniform(0.1, 5.0)),
            float(rng.uniform(0.5, 20.0)),
            ttft_p50_s=0.5,
            ttft_p95_s=1.0,
            tpot_p50_s=0.01,
            tpot_p95_s=0.01,
            base_url="https://api.example.com",
        ),
    )
    last = replace(more.stages[-1], architecture=None, engine=EXTERNAL, config=EngineConfig(), external=api)
    more = replace(more, stages=(*more.stages[:-1], last), objective=replace(more.objective, within=0.0))
    return Pair(
        "an API", _of_stages(more, list(range(len(more.stages) - 1))), more, efforts=(FEW, FEW), whole=True
    )


def gears_pair(seed: int) -> Pair:
    """Up to eight settings for rising load."""
    rng = np.random.default_rng([seed, 13])
    less = drawn(seed, 1)
    o = less.objective
    limit_s = o.latency_max_s or float(rng.choice([5.0, 20.0, 60.0]))
    less = replace(less, objective=replace(o, latency_max_s=limit_s, within=0.0), gears=1)
    return Pair("gears", less, replace(less, gears=8), efforts=(FEW, FEW), whole=True)


def in_time_pair(seed: int) -> Pair:
    """One pool of two or three is left out, of so many GPUs that the same time is not enough for a whole search."""
    pair = pools_pair(seed)
    return replace(pair, what="a pool more in the same time", limits_s=(1.0, 1.0), efforts=(None, None))


KINDS: dict[str, Callable[[int], Pair | AcrossGoals]] = {
    "pools": pools_pair,
    "pools-fast": fast_pools_pair,
    "nodes": nodes_pair,
    "effort": effort_pair,
    "time": time_pair,
    "bounds": bound_pair,
    "prices": price_pair,
    "rates": rate_pair,
    "rates-fleet": fleet_rate_pair,
    "tokens-fleet": fleet_tokens_pair,
    "stages": stages_pair,
    "stages-known": stages_known_pair,
    "exits": exits_pair,
    "speculation": speculation_pair,
    "external": external_pair,
    "gears": gears_pair,
    "pools-in-time": in_time_pair,
    "pools-quality": partial(of_quality, pools_pair),
    "nodes-quality": partial(of_quality, nodes_pair),
    "bounds-quality": partial(of_quality, bound_pair),
    "fastest-quality": quality_of_the_fastest,
    "cheapest-quality": quality_of_the_cheapest,
    "best-cost": cost_of_the_best,
    "fastest-bound": bound_of_the_fastest,
    "fastest-less": fastest_within_less,
}
