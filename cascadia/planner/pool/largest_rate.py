"""The goal `rate`: the trace played as fast as some plan carries it and keeps every bound.

A plan for a rate is what the goal `cost` finds at it, within the same pools and budget, and so is held to the same
certificate of stability. Rates are halved between what the deployments that sustain most keep as they are and the bound
of the linear program (`rate_bound.py`); what they sustain, latency aside, is asked for first. Every combination of the
pools is asked, so that one more is not worse than without it. A plan that is found to carry more within the bounds is
not of the largest rate: planning goes on from it (`carried_on`). Where an API without a limit carries all there is no
largest rate.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from cascadia.domain.errors import BadInput, Infeasible, OutOfTime
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.pool.rate_bound import rate_bound_rps
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.throughput import most_capable, most_sustaining
from cascadia.planner.stability.headroom import LIKELY, PRECISION, largest
from cascadia.planner.stability.repeats import at_rate, slowest

ROUTINGS = 4
"""Of the lightest so many say where the search begins, and where it ends."""

HARDLY = 0.01
"""No rate below so little of the trace's, or of the bound where that is less, is looked for; where none is kept, that
says why."""

LARGER = "larger rates"

LESS = 0.98
"""So much less is planned for where a plan's own search finds none at the rate for which one was found."""
ATTEMPTS = 8

Planned = TypeVar("Planned")


def for_a_rate(problem: Problem) -> Problem:
    """The problem that is planned at each rate."""
    return replace(problem, objective=replace(problem.objective, goal="cost"))


Asked = Callable[[Search, float], bool]
"""Tells, sooner than a plan, whether there is one on a search's pools with the trace so many times as fast."""


def largest_factor(
    parts: Iterable[Search],
    keeps: Asked,
    progress: Callable[[str], None],
    carries: Callable[[Search, Deployment], float],
) -> float:
    """The largest multiple of the rate that is kept on one of `parts` of the pools, to `PRECISION`; 0: none.

    `carries`: what a deployment keeps, told without a search; those that sustain the most are asked that first, of all
    parts. These are asked by falling bound, then, and none whose bound is below what another keeps (as Kairos+ prunes,
    Alg. 1).
    """
    best, hopes = 0.0, []
    for search in parts:
        if search.deadline.leaves_out(LARGER):
            break
        hope = _hope(search)
        best = max([best, *(carries(search, d) for d in hope.capable)])
        hopes.append((search, hope))
    # Of equals the one of fewer pools is asked sooner.
    for search, hope in sorted(hopes, key=lambda known: (not known[1].unbounded, -known[1].bound)):
        if hope.bound <= best * (1 + PRECISION) and not hope.unbounded:
            continue
        if search.deadline.leaves_out(LARGER):
            break
        rate = search.problem.workload.rate_rps
        names = " and ".join(pool.name for pool in search.problem.cluster.pools)

        def holds(factor: float, search: Search = search, names: str = names, rate: float = rate) -> bool:
            progress(f"is there a plan at {factor * rate:.3g} requests/s on {names}?")
            return keeps(search, factor)

        # Beyond what all others carry only who has no bound is left.
        if hope.unbounded and holds(max(hope.bound * (1 + 2 * PRECISION), 1.0)):
            raise _unbounded(search.problem)
        guess = max(LIKELY * hope.sustained, best * (1 + PRECISION))
        least = least_factor(search, hope.bound)
        best = largest(holds, best, hope.bound * (1 + PRECISION), guess, least=least)
    return best


def least_factor(search: Search, bound: float) -> float:
    """The least multiple of the rate that is looked for."""
    return max(HARDLY * (min(bound, 1.0) if bound > 0 else 1.0), slowest(search.problem))


class _Hope(NamedTuple):
    """Multiples of the rate: that no deployment passes, and that one seems to sustain, latency aside; of routings that
    have a bound. `unbounded`: whether one has none. `capable`: the deployments that sustain the most."""

    bound: float
    sustained: float
    unbounded: bool
    capable: tuple[Deployment, ...]


def _hope(search: Search) -> _Hope:
    bound, sustained, unbounded, deployments = 0.0, 0.0, False, []
    for k, _ in most_sustaining(search, np.flatnonzero(allowed(search)), most=ROUTINGS):
        bound_rps = rate_bound_rps(search, k)
        unbounded |= bound_rps is None
        if bound_rps is None:
            continue
        mine = bound_rps / search.problem.workload.rate_rps
        bound = max(bound, mine)
        # None, too, where the trace is thousands of times as fast as anything carries.
        if (capable := most_capable(search, k)) is not None:
            sustained = max(sustained, min(mine, capable[0]))
            deployments.append(capable[1])
    return _Hope(bound, sustained, unbounded, tuple(deployments))


def check_bounded(problem: Problem, found: Plan) -> None:
    """Raises `BadInput` where nothing bounds the rate of `found`, the plan of the largest."""
    if found.proof.rate_bound_rps is None:
        raise _unbounded(problem)


def _unbounded(problem: Problem) -> BadInput:
    apis = [stage.name for stage in problem.stages if stage.external is not None]
    return BadInput(
        "objective.maximize",
        f"there is no largest rate: {' or '.join(apis)} may answer all requests, and has no limit",
        "write its requests_per_minute, or minimize cost",
    )


def at_factor(search: Search, factor: float, make: Callable[[Problem], Planned]) -> Planned:
    """The plan that `make` finds at that multiple of the rate, or a little below. Raises `Infeasible`."""
    problem = search.problem
    for _ in range(ATTEMPTS):
        try:
            return make(at_rate(problem, factor or least_factor(search, _hope(search).bound)))
        except Infeasible:
            if not factor:
                raise
            factor *= LESS
    return make(at_rate(problem, factor))


def carried_on(
    found: Planned, carries: Callable[[Planned], float], faster: Callable[[Planned, float], Planned]
) -> Planned:
    """`found`, or while it `carries` more than its rate within all bounds, what is planned at so many times that."""
    for _ in range(ATTEMPTS):
        times = carries(found)
        if times <= 1 + PRECISION:
            break
        try:
            found = faster(found, times)
        except (Infeasible, OutOfTime):
            break
    return found
