"""Quality watch: holds the plan in force to its bar, by what shadow evaluations say of the answers that it gives.

Of each question that went through all stages the plan's own rule tells which answer its client had, so which score.
Scores stand for quality, as kind or strict as they were to the answers of the plan's own table.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.domain.workload import Floats, Ints

MOST = 5000
"""Of the latest: a shortfall of a point is found with so many."""
SURE = 3.0
"""Standard errors. Looked at once an hour, a plan that is just at its bar is blamed once in four weeks at most."""
SLACK = 0.5
"""Points."""


def shortfall(plan: Plan, gear: Ints, scores: Floats, least: int) -> str:
    """Tells by how much the answers to these questions are surely below the bar; empty where they are not, where fewer
    than `least` tell, where no bar was asked, or where stages are skipped by what is foreseen, which is not told.
    `gear` [n], `scores` [n, S] in the order of the plan's stages."""
    asked, told = plan.objective.quality_min, _score(plan)
    given = given_scores(plan, gear[-MOST:], scores[-MOST:])
    given = given[np.isfinite(given)]
    if asked is None or told is None or plan.foresees or len(given) < least:
        return ""
    bar = asked + told - plan.predicted.quality.mean
    mean, error = float(given.mean()), SURE * float(given.std()) / sqrt(len(given))
    if mean + error + SLACK >= bar:
        return ""
    what = f"{len(given):,} answers score {mean:.1f} ± {error:.1f}"
    return f"{what}, where {bar:.1f} stands for the quality of {asked:g} that was asked"


def _score(plan: Plan) -> float | None:
    """Mean score of the answers whose mean quality the plan tells; of its trace's, in plans that do not tell it."""
    of_table = plan.predicted.quality.score
    return plan.predicted.score_mean if of_table is None else of_table


def given_scores(plan: Plan, gear: Ints, scores: Floats) -> Floats:
    """Scores [n] of the answers that clients had: of the first of their gear's stages that accepts, else its last. A
    gear that the plan has not counts as its first. Of two routings mixed by turns each counts by its share."""
    if plan.mixture is not None:
        deployed = [stage.name for stage in plan.stages if stage.deployed]
        own, other = (_scores_by(plan, deployed, levels, scores) for levels, _ in plan.routings)
        return own + plan.mixture.share * (other - own)
    found = np.full(len(scores), np.nan)
    which = np.where((gear >= 0) & (gear < len(plan.gears)), gear, 0)
    for number, rule in enumerate(plan.gears):
        found = np.where(which == number, _scores_by(plan, rule.stages, rule.thresholds, scores), found)
    return found


def _scores_by(plan: Plan, asked: Sequence[str], thresholds: Sequence[float], scores: Floats) -> Floats:
    """Scores [n] of the answers by one routing. A stage that it leaves to the other of a mixture accepts none."""
    names = [stage.name for stage in plan.stages]
    columns = [names.index(stage) for stage in asked]
    by = np.full(len(scores), columns[-1])
    for column in reversed(columns[:-1]):
        by = np.where(scores[:, column] >= thresholds[column], column, by)
    found: Floats = scores[np.arange(len(scores)), by]
    return found
