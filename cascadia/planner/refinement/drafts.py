"""Tokens that engines draft (`stages[].speculation`): fewer than the spec allows where that is better, or none.

vLLM takes a number for each number of its sequences (`cascadia_sim.iteration.drafting`), so that all that is left to
choose is whether it drafts at all: a draft model takes memory and time also where it proposes nothing. Of an engine
with one number for all loads, every number is tried.
"""

from collections.abc import Iterator
from dataclasses import replace

from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.refinement.batch_tokens import engine_config, retimed
from cascadia.planner.search.context import Search, configured
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape
from cascadia_sim.iteration.speculation import Speculation


def without_drafts(search: Search) -> Search | None:
    """The search with engines that draft nothing; None where none does anyway."""
    problem = search.problem
    stages = tuple(
        replace(s, config=replace(s.config, speculation=None), may_draft=None)
        if s.may_draft is not None
        else s
        for s in problem.stages
    )
    if stages == problem.stages:
        return None
    return configured(search, replace(problem, stages=stages))


def other_drafts(search: Search, here: Deployment) -> Iterator[Deployment]:
    """`here` with the engines of one stage drafting other numbers of tokens."""
    mixes = dict(here.mixes)
    for stage, mix in here.mixes:
        if stage == JUDGE or not mix or (allowed := search.problem.stages[stage].may_draft) is None:
            continue
        by_batch = search.problem.stages[stage].config.drafts_by_batch
        for tokens in sorted({0, allowed.tokens} if by_batch else range(allowed.tokens + 1)):
            drafts = replace(allowed, tokens=tokens) if tokens else None
            changed = _drafting(search, stage, mix, drafts)
            if changed is not None and [r.shape.key for r in changed] != [r.shape.key for r in mix]:
                yield deployment(here.routing, mixes | {stage: changed})


def _drafting(search: Search, stage: int, mix: Mix, drafts: Speculation | None) -> Mix | None:
    """The mix with `drafts`; None where a replica would have no room beside what drafts."""
    config = replace(engine_config(search.problem.stages[stage], mix), speculation=drafts)
    try:
        return tuple(retimed(search, stage, r, config) for r in mix)
    except (DoesNotFit, InvalidShape):
        return None
