"""Refusal where APIs allow fewer requests than any routing of the asked quality sends them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

import numpy as np

from cascadia.domain.errors import Infeasible
from cascadia.domain.problem import Problem, Stage
from cascadia.planner.infeasible.nearest import Planning
from cascadia.planner.search.context import Search, allowed, start_search
from cascadia.planner.stability.capacity_shares import limit_shares

FULL = 0.95
"""Share of a limit from which what waits for it may grow: requests do not come evenly."""
COUNTED = 64
"""Routings of which the trace's own requests are counted: those that ask the least by the table."""
HIGHER = (1.0, 1.1, 1.3)
"""Limits asked for, as multiples of what is sent."""


def limits_too_low(
    search: Search, planning: Planning, rate_that_holds: Callable[[Search, Planning], str]
) -> Infeasible | None:
    """The refusal where limits bind and higher ones were found to do; None where they are not what is missing."""
    rate, stages = search.problem.workload.rate_rps, search.problem.stages
    sent = sent_at_least(search)
    if not sent or (wider := _limits_that_hold(search, sent, planning)) is None:
        return None
    told = " and ".join(
        f"{stages[s].name} {per_minute:.3g} a minute, of {_limit(stages[s])}"
        for s, per_minute in sent.items()
    )
    return Infeasible(
        f"{rate:.3g} requests/s is more than requests_per_minute allows: the routing of this quality that asks the"
        f" least sends {told}",
        f"requests_per_minute {wider} would do; {rate_that_holds(search, planning)}",
    )


def sent_at_least(search: Search) -> dict[int, float]:
    """Requests a minute, by stage, of the routing that is good enough and fills the APIs' limits the least; of those
    limits that it fills. Empty where it fills none."""
    problem, good = search.problem, np.flatnonzero(allowed(search))
    limits = {s: limit for s, stage in enumerate(problem.stages) if (limit := _limit(stage))}
    if not limits or not len(good):
        return {}
    by_table = (search.routings.reached[good][:, list(limits)] / np.array(list(limits.values()))).max(axis=1)
    least = good[np.argsort(by_table, kind="stable")[:COUNTED]].tolist()
    shares = [limit_shares(problem, search.decisions(k)) for k in least]
    fewest = min(shares, key=lambda found: max(found.values(), default=0.0))
    return {s: share * limits[s] for s, share in fewest.items() if share > FULL}


def _limits_that_hold(search: Search, sent: Mapping[int, float], planning: Planning) -> str | None:
    """Words on limits of the stages `sent` so much with which there is a plan; None where none was found."""
    for times in HIGHER:
        limits = {s: _rounded_up(times * per_minute) for s, per_minute in sent.items()}
        names = search.problem.stages
        told = " and ".join(f"{limit} of {names[s].name}" for s, limit in limits.items())
        planning.progress(f"is there a plan with requests_per_minute {told}?")
        problem = _with_limits(search.problem, limits)
        wider = start_search(problem, search.routings, search.threads, search.deadline)
        if planning.sustains(wider) and (not problem.objective.bounds or planning.keeps(wider)):
            return told
    return None


def _with_limits(problem: Problem, limits: Mapping[int, int]) -> Problem:
    stages = tuple(_limited(stage, limits.get(s)) for s, stage in enumerate(problem.stages))
    return replace(problem, stages=stages)


def _limited(stage: Stage, limit: int | None) -> Stage:
    if stage.external is None or limit is None:
        return stage
    return replace(stage, external=replace(stage.external, requests_per_minute=limit))


def _limit(stage: Stage) -> int:
    """Requests a minute that it may get; 0 where nothing limits it."""
    return 0 if stage.external is None else stage.external.requests_per_minute or 0


def _rounded_up(limit: float) -> int:
    """The limit rounded up to two digits."""
    digit: int = 10 ** max(len(str(int(limit))) - 2, 0)
    return ceil(limit / digit) * digit
