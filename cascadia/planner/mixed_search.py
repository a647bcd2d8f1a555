"""The search with mixtures of routings (`mixtures.py`), after that without.

Plans without mixtures are searched for first. A mixture replaces the best of them only where it is better by the
objective, so that nobody is worse off for there being mixtures. As in `supersets.py`, each part of the cluster is
searched, with mixtures of its own prices, so that more pools to choose from cost nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cascadia.planner.batch_tokens import rebudgeted
from cascadia.planner.bilevel import Solver
from cascadia.planner.demand import JUDGE
from cascadia.planner.deployment import Deployment
from cascadia.planner.mixtures import least_quality, mixtures
from cascadia.planner.references import References
from cascadia.planner.refine import Candidate, Effort, rank, within_limits
from cascadia.planner.routings import Routings, with_mixtures
from cascadia.planner.search import Search, on_pools, restricted
from cascadia.planner.supersets import Found, parts, searched

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
        if part is None or mixed is None:
            continue
        progress("mixtures of two routings")
        only = restricted(part, mixed)
        one = searched(only, solver_of, effort, progress, list(_starts(only, found)))
        assert chosen.best is not None
        if one.best is not None and rank(search.problem, one.best) < rank(search.problem, chosen.best):
            chosen = _among(found, mixed, one)
    return chosen


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
        needed = set(np.flatnonzero(only.routings.deployed[k]).tolist())
        if only.self_hosted_judge and only.decisions(k).judged.any():
            needed.add(JUDGE)
        fit = [d for d in here if {stage for stage, _ in d.mixes} == needed]
        yield from (replace(d, routing=k) for d in fit[:STARTS])


def _among(found: Found, mixed: Routings, one: Found) -> Found:
    """What was found of mixtures `one`, numbered after the routings that are `found`'s."""
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
