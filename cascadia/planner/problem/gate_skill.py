"""Skill of a gate: whether its scores tell right answers from wrong ones, and what follows where they do not."""

from collections.abc import Iterator

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia_judge.scores.agreement import Agreement, Bools, agreement

AUC_WORTH_HAVING = 0.6
"""Below this a cascade gains 3 points beyond a coin at the most, even where the large model is 40 points ahead and
costs a hundred times the small one's price (`baselines/payoff.py`)."""


def weak_gates(table: QualityTable) -> Iterator[str]:
    """One sentence for each stage whose scores do not tell its right answers from its wrong ones."""
    for row, stage in enumerate(table.stages[:-1]):
        found = skill(table.score[row], table.quality[row])
        if found is not None and (said := weak(found)):
            yield f"the scores of stage {stage!r} {said}"


def weak(found: Agreement) -> str | None:
    """Warning that follows from an AUC that a coin could have; None from a better one."""
    low, high = found.auc - 1.96 * found.standard_error, found.auc + 1.96 * found.standard_error
    at = f"tell right answers from wrong ones with an AUC of {found.auc:.2f} ± {1.96 * found.standard_error:.2f}"
    if high < 0.5:
        return (
            f"{at}, and a coin has 0.50: they are higher where answers are wrong; is the scale upside down?"
        )
    if low <= 0.5 or found.auc < AUC_WORTH_HAVING:
        return (
            f"{at}, and a coin has 0.50: a gate by them passes on answers no better than at random, so a cascade pays "
            "for two models and gains nothing on a mixture of them; take another judge, or more prompts"
        )
    return None


def skill(score: Floats, quality: Floats) -> Agreement | None:
    """Agreement of scores (m) with quality (m): above 50 is right where that divides the answers, else above
    the median.

    None where there is nothing to tell apart, or the score is the quality itself.
    """
    if np.array_equal(score, quality):
        return None
    return agreement(score, right_of(quality))


def right_of(quality: Floats) -> Bools:
    """Answers (m) that count as right: those above 50, or, where these are all or none, above the median."""
    right = quality > 50.0
    if right.all() or not right.any():
        right = quality > np.median(quality)
    return right
