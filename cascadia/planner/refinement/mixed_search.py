"""The search with mixtures of routings (`mixtures.py`), after that without.

Plans without mixtures are searched for first. A mixture replaces the best of them only where it is better by the
objective, so that nobody is worse off for there being mixtures. As in `supersets.py`, each part of the cluster is
searched, with mixtures of its own prices, so that more pools to choose from cost nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cascadia.domain.objective import Objective
from cascadia.domain.quality import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.batch_tokens import rebudgeted
from cascadia.planner.refinement.refine import Candidate, Effort, rank, within_limits
from cascadia.planner.refinement.supersets import Found, parts, searched
from cascadia.planner.routing.mixtures import bounded
from cascadia.planner.routing.routings import Routings, with_mixtures
from cascadia.planner.search.bilevel import Solver
from cascadia.planner.search.context import Search, on_pools, restricted
from cascadia.planner.search.elsewhere import about_usd_per_hour
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.stage_usd import stage_usd, verdict_usd

MOST = 4
"""Mixtures that are searched, the cheapest of as many chords."""
WORTHWHILE = 0.02
"""A mixture must save at least this part of what the cheapest routing costs."""
STARTS = 3
"""Of the best deployments of routings, so many are looked at for each mixture."""


def with_mixed(
    found: Found,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
) -> Found:
    """`found`, or where a mixture is better, that, among what was found: routings keep their numbers."""
    search, best = found.search, found.best
    assert best is not None
    least = least_quality(search.problem.objective, best.quality_lower)
    chosen = found
    for pools in parts(search.problem.cluster):
        part = on_pools(search, pools)
        mixed = None if part is None else mixtures(part, least)
        if part is None or mixed is None or search.deadline.leaves_out("mixtures of two routings"):
            continue
        progress("mixtures of two routings")
        only = restricted(part, mixed)
        one = searched(only, solver_of, effort, progress, list(_starts(only, found)))
        assert chosen.best is not None
        if one.best is not None and rank(search.problem, one.best) < rank(search.problem, chosen.best):
            chosen = _among(found, mixed, one)
    return chosen


def mixtures(search: Search, least: float) -> Routings | None:
    """The cheapest mixtures whose quality is at least `least`; None where none saves anything beside the search's own.

    Costs are of all requests, each stage on its cheapest replicas.
    """
    problem = search.problem
    found = bounded(problem.quality, least, problem.confidence, problem.seed)
    if found is None:
        return None
    mixed, chord = found
    cost = _cost(search, mixed)
    good = search.routings.lower >= least
    known = _cost(search, search.routings)[good].min(initial=np.inf)
    order = np.argsort(cost, kind="stable")
    order = order[(mixed.lower[order] >= least) & (cost[order] < (1 - WORTHWHILE) * known)]
    first = np.unique(chord[order], return_index=True)[1]
    chosen = order[np.sort(first)][:MOST]
    return mixed.take(chosen) if len(chosen) else None


def least_quality(objective: Objective, found: float) -> float:
    """Quality that a mixture must reach: the bar, or where quality itself is to be large, more than was `found`
    without.
    """
    least = objective.quality_min or 0.0
    return max(least, found + 1e-6) if objective.goal == "quality" else least


def _starts(only: Search, found: Found) -> Iterator[Deployment]:
    """Deployments of all that a mixture needs and of no more, which kept the bounds under a routing, best first."""
    problem = only.problem
    pools = {pool.name for pool in problem.cluster.pools}
    ranked = sorted(
        (c for c in found.candidates if within_limits(problem, c)), key=lambda c: rank(problem, c)
    )
    here = [
        c.deployment for c in ranked if all(r.shape.pool in pools for _, m in c.deployment.mixes for r in m)
    ]
    for k in range(len(only.routings)):
        needed = set(only.on_gpus(k))
        if only.self_hosted_judge and only.decisions(k).judged.any():
            needed.add(JUDGE)
        fit = [d for d in here if {stage for stage, _ in d.mixes} == needed]
        yield from (replace(d, routing=k) for d in fit[:STARTS])


def _among(found: Found, mixed: Routings, one: Found) -> Found:
    """Findings of mixtures `one`, numbered after the routings that are `found`'s."""
    assert one.best is not None
    first = len(found.search.routings)

    def numbered(c: Candidate) -> Candidate:
        return replace(c, deployment=replace(c.deployment, routing=first + c.deployment.routing))

    base = rebudgeted(found.search, one.best.deployment) or found.search
    search = restricted(base, with_mixtures(found.search.routings, mixed))
    # What others deploy is the same with mixtures or without.
    search.memory["rivals"] = base.memory.setdefault("rivals", {})
    prices = np.concatenate([found.loop.prices_s, np.full(len(mixed), np.nan)])
    references = References(search, found.loop.references.by_stage)
    loop = replace(found.loop, prices_s=prices, references=references)
    return Found(
        numbered(one.best), (*found.candidates, *(numbered(c) for c in one.candidates)), search, loop
    )


def _cost(search: Search, routings: Routings) -> Floats:
    """Dollars an hour of each, had every stage just what its requests take of its cheapest replicas."""
    usd = stage_usd(search)
    of_stages = np.array([usd.get(s, 0.0) for s in range(len(search.problem.stages))])
    verdicts = routings.verdicts(np.arange(len(routings))).sum(axis=1)
    apis = about_usd_per_hour(restricted(search, routings), np.arange(len(routings)))
    return np.asarray(routings.reached @ of_stages + verdicts * verdict_usd(search, usd) + apis)
