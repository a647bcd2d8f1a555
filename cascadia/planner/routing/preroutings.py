"""Routings by the question alone: each request goes to one stage, whose answer nobody judges.

A stage answers those of whom what is foreseen of it is at least a level, the next stage the others, and so on: over
every set of two stages and of three. Which stage answers whom is then as in a cascade that takes it for scores;
but who is passed on was never served, so a stage's load is what it answers.
"""

from dataclasses import replace

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.dominance import non_dominated
from cascadia.planner.routing.frontier import QUALITY_UNIT, all_routings
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, SKIPS_NONE, Routings, thin

MOST_LEVELS = 40_000
"""Vectors of levels of one set of stages; beyond, they are thinned."""
STAGES_MOST = 3
MOST = 1_000
"""Spread over the loads; a plan and the baseline choose from the same."""


def by_question_alone(table: QualityTable) -> Routings:
    """Routings by the question alone that none beats in mean and loads, at most `MOST`. Raises `ValueError`
    where none is foreseen.
    """
    if table.foreseen is None:
        raise ValueError("the table foresees nothing")
    as_scores = replace(table, score=table.foreseen, foreseen=None)
    every = all_routings(as_scores, exact_up_to=MOST_LEVELS, thinned_to=MOST_LEVELS)
    stages = every.deployed.sum(axis=1)
    every = every.take((stages > 1) & (stages <= STAGES_MOST))
    answered = _answered(every)
    order = np.argsort(every.deployed.sum(axis=1), kind="stable")
    total = np.rint(every.mean[order] / QUALITY_UNIT).astype(np.int64)
    kept = order[non_dominated(answered[order], total)]
    chosen = every.take(kept)
    gated = (chosen.thresholds > ACCEPTS_ALL) & (chosen.thresholds < ACCEPTS_NONE)
    found = replace(
        chosen,
        reached=answered[kept],
        thresholds=np.where(gated, ACCEPTS_ALL, chosen.thresholds),
        skip_below=np.where(gated, chosen.thresholds, SKIPS_NONE),
    )
    return thin(found, MOST)


def _answered(routings: Routings) -> Floats:
    """Part of the prompts that each stage answers (k, S), where those come to it that the ones before it left."""
    answered = routings.reached.copy()
    left = np.zeros(len(answered))
    for stage in reversed(range(answered.shape[1])):
        here = routings.deployed[:, stage]
        answered[:, stage] = np.where(here, routings.reached[:, stage] - left, 0.0)
        left = np.where(here, routings.reached[:, stage], left)
    return answered
