"""A pre-router as a baseline: one of the models, chosen from the question alone (RouteLLM; Cascadia app. I).

No answer is judged, so there is no judge, and no request runs twice; but the router must guess. Its guess is the
table's `foreseen` quality, which is measured; without, the stage's score mixed with noise so that their rank
correlation is `SKILL`: about what BERT routers reach on chat questions, an assumption, and named as one. Its routings
are those of `routing/preroutings.py`, held to the same lower confidence bound, and what is deployed is searched for as
Cascadia's own plans are.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Judge, Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.baselines.single_model import Entry, nothing, searched
from cascadia.planner.refinement.refine import EFFORT, Effort
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.routing.preroutings import by_question_alone
from cascadia.planner.search.context import Search
from cascadia.planner.tables.tables import TableCache

Floats = NDArray[np.float64]

NAME = "pre-router"
SKILL = 0.35
ASSUMED = f"assumes a skill of {SKILL:g}: nothing foresees in the quality table"


def prerouter(search: Search, effort: Effort = EFFORT) -> Entry:
    """The best split over all pairs and threes of stages; `assumed` says of a skill that was not measured."""
    if len(search.problem.stages) < 2:
        return nothing(NAME, "there is but one model")
    found = searched(NAME, _routed(search), effort)
    found = replace(found, assumed="" if measured(search.problem) else ASSUMED)
    # Nothing is judged: what stands for a judge in the simulation is free and takes no time.
    return found if found.run is None else replace(found, run=replace(found.run, verdicts=None))


def measured(problem: Problem) -> bool:
    """Tells whether the skill of a guess by the question alone is known here."""
    return problem.quality.foreseen is not None


def guess(problem: Problem, stage: int) -> Floats:
    """Quality that the router believes of the stage's answer to each prompt (m), 0-100."""
    if problem.quality.foreseen is not None:
        foreseen: Floats = problem.quality.foreseen[stage]
        return foreseen
    scores = problem.quality.score[stage]
    # Streams of its own: verdicts' delays are drawn by the seed and 1, tosses of coins by the seed and 3.
    rng = np.random.default_rng(problem.seed + 2)
    # Ties are ordered by lot: by their place in the table the guess would know what comes next to what.
    ranks = np.argsort(np.argsort(scores + 1e-6 * rng.random(len(scores)))) / max(len(scores) - 1, 1)
    # 1 / sqrt(12), the deviation of what is uniform on 0-1.
    centred = (ranks - 0.5) / 0.2887
    mixed = SKILL * centred + np.sqrt(1 - SKILL**2) * rng.standard_normal(len(scores))
    order = np.argsort(np.argsort(mixed))
    return np.floor(order / len(scores) * 50) * 2


def _routed(search: Search) -> Search:
    """The same search with routings by the question alone, and a judge that costs nothing since nobody asks it."""
    problem = search.problem
    believed = np.stack([guess(problem, s) for s in range(len(problem.stages))])
    table = replace(problem.quality, foreseen=believed)
    return replace(
        search,
        problem=replace(problem, quality=table, judge=Judge(kind=problem.judge.kind, placement="router")),
        routings=with_bounds(table, by_question_alone(table), problem.confidence, problem.seed)[0],
        shapes={s: shapes for s, shapes in search.shapes.items() if s != JUDGE},
        verdict_s=0.0,
        tables=TableCache(search.threads),
        _decisions={},
    )
