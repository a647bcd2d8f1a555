"""Quality watch: holds the plan in force to its bar, by what shadow evaluations say of the answers that it gives.

Of each question that went through all stages the plan's own rule tells which answer its client had, so which score.
Scores stand for quality, as kind or strict as they were to the answers of the plan's own table.
"""

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
    than `least` tell, or where no bar was asked. `gear` [n], `scores` [n, S] in the order of the plan's stages."""
    asked, told = plan.objective.quality_min, plan.predicted.score_mean
    given = given_scores(plan, gear[-MOST:], scores[-MOST:])
    given = given[np.isfinite(given)]
    if asked is None or told is None or len(given) < least:
        return ""
    bar = asked + told - plan.predicted.quality.mean
    mean, error = float(given.mean()), SURE * float(given.std()) / sqrt(len(given))
    if mean + error + SLACK >= bar:
        return ""
    what = f"{len(given):,} answers score {mean:.1f} ± {error:.1f}"
    return f"{what}, where {bar:.1f} stands for the quality of {asked:g} that was asked"


def given_scores(plan: Plan, gear: Ints, scores: Floats) -> Floats:
    """Scores [n] of the answers that clients had: of the first of their gear's stages that accepts, else its last. A
    gear that the plan has not counts as its first."""
    names = [stage.name for stage in plan.stages]
    found = np.full(len(scores), np.nan)
    which = np.where((gear >= 0) & (gear < len(plan.gears)), gear, 0)
    for number, rule in enumerate(plan.gears):
        columns = [names.index(stage) for stage in rule.stages]
        by = np.full(len(scores), columns[-1])
        for column in reversed(columns[:-1]):
            by = np.where(scores[:, column] >= rule.thresholds[column], column, by)
        found = np.where(which == number, scores[np.arange(len(scores)), by], found)
    return found
