"""A deployment that another search of the same routings found, at another rate or by mixing them, held to this one."""

from dataclasses import replace

import numpy as np

from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.batch_tokens import rebudgeted
from cascadia.planner.refinement.state import Refinement, strain
from cascadia.planner.refinement.supersets import Found
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search.context import restricted
from cascadia.planner.search.reference_tables import References


def with_known(found: Found, deployment: Deployment, routings: Routings) -> Found | None:
    """`found` with `deployment` as its best, if it keeps all bounds; its `routings` begin with `found`'s own."""
    if not _begin_with(routings, found.search.routings):
        return None
    here = beside(found, deployment, routings)
    state = Refinement(here.search, here.search.simulator, here.loop.references)
    problem = here.search.problem
    for candidate in map(state.certified, state.simulate([deployment])):
        assert candidate.certificate is not None
        if candidate.certificate.holds and strain(problem, candidate) <= 1.0:
            return replace(here, best=candidate, candidates=(*found.candidates, candidate))
    return None


def numbered_alike(own: Routings, deployment: Deployment, routings: Routings) -> bool:
    """Tells whether a deployment's routing, one of `routings`, has the same number among a search's `own`."""
    return deployment.routing < len(own) and _begin_with(routings, own)


def _begin_with(routings: Routings, own: Routings) -> bool:
    return np.array_equal(routings.thresholds[: len(own)], own.thresholds)


def beside(found: Found, deployment: Deployment, routings: Routings) -> Found:
    """`found` on engines like those of `deployment`, by `routings` that begin with its own."""
    base = rebudgeted(found.search, deployment) or found.search
    search = restricted(base, routings)
    # What others deploy is the same with mixtures or without.
    search.memory["rivals"] = base.memory.setdefault("rivals", {})
    more = len(routings) - len(found.search.routings)
    prices = np.concatenate([found.loop.prices_s, np.full(more, np.nan)])
    references = References(search, found.loop.references.by_stage)
    loop = replace(found.loop, prices_s=prices, references=references)
    return replace(found, search=search, loop=loop, thrift=None)
