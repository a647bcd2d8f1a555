"""Dollars paid to APIs of others for a routing's tokens: stages elsewhere, and a judge elsewhere."""

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.domain.quality import Floats
from cascadia.planner.routing.routings import Bools, Ints
from cascadia.planner.search.context import Search
from cascadia.planner.tables.loads import verdict_reads, verdicts_each

HOUR_S = 3600.0


def charges(problem: Problem) -> bool:
    """Tells whether anything is paid by the token."""
    judge = problem.judge
    priced = judge.usd_per_million_input_tokens + judge.usd_per_million_output_tokens > 0
    return any(stage.external is not None for stage in problem.stages) or (
        judge.placement == "external" and priced
    )


def usd_per_hour(search: Search, routing: int) -> float:
    """Dollars an hour of one routing, of the very requests that it sends there."""
    known: dict[int, float] = search.memory.setdefault("elsewhere", {})
    if routing not in known:
        decided = search.decisions(routing)
        known[routing] = usd_an_hour(search.problem, decided.reached, decided.judged)
    return known[routing]


def about_usd_per_hour(search: Search, routings: Ints) -> Floats:
    """Dollars an hour of several routings, by how many requests reach each stage and how long all are on average."""
    found = np.zeros(len(routings))
    for s, stage in enumerate(search.problem.stages):
        if stage.external is not None:
            every = np.zeros((len(search.problem.stages), len(search.problem.workload)), bool)
            every[s] = True
            found += search.routings.reached[routings, s] * usd_an_hour(search.problem, every, ~every & False)
    return found


def usd_an_hour(problem: Problem, reached: Bools, gated: Bools) -> float:
    """Dollars an hour of requests (S, n) that are `reached`, and `gated`, so."""
    w, judge = problem.workload, problem.judge
    usd = sum(
        stage.external.usd(
            float(w.input_tokens[s][reached[s]].sum()), float(w.output_tokens[s][reached[s]].sum())
        )
        for s, stage in enumerate(problem.stages)
        if stage.external is not None
    )
    if judge.placement == "external":
        count = verdicts_each(problem, gated)
        judged = reached & (count > 0)
        read = float(verdict_reads(problem, gated)[judged].sum())
        usd += read * judge.usd_per_million_input_tokens / 1e6
        wrote = float(count[judged].sum()) * judge.output_tokens
        usd += wrote * judge.usd_per_million_output_tokens / 1e6
    return HOUR_S * (float(usd) * w.rate_rps / max(len(w), 1))
