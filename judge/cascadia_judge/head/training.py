"""Trains a head, and says by cross-validation how good it is.

Rows of one question are never on both sides of a split. Raw scores are taken on folds that the learners did
not see; the shipped calibration is fitted on all of those, the calibration that is measured on those of the
other folds alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import Floats, Group, Seen, joined
from cascadia_judge.head.head import Head, raw_score
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.learners import Growth, boost, fit_line
from cascadia_judge.head.projection import Basis, fit_basis
from cascadia_judge.scores.agreement import agreement
from cascadia_judge.scores.calibration import Calibration, calibration_error, reliability, smoothed

ROWS_MIN = 50
RIGHT = 50.0
"""A quality of at least this counts as right, where right and wrong are told apart."""
RIDGE = 0.1
SPREAD_BINS = 10


@dataclass(frozen=True, slots=True)
class Course:
    """Settings by which a head is trained. `decoys`: as many answers to other questions, per row, are added as
    answers worth nothing, so that an answer that suits every question does not pass. Of those of `nulls`, which
    suit every question (Zheng et al. 2024 call it a null model), as many again. `reads`: a head that knows
    log-probabilities reads the answer too, even where that tells right from wrong no better, so that an answer
    to another question is not taken for one to this.
    """

    folds: int = 5
    decoys: float = 0.0
    seed: int = 0
    growth: Growth = field(default_factory=Growth)
    nulls: Seen | None = field(default=None, compare=False)
    reads: bool = False


class Fitted(NamedTuple):
    basis: Basis
    line: Line
    trees: Trees


class Crossed(NamedTuple):
    """Predictions out of fold, one entry a row: `raw` and, by the calibration of the other folds, `quality`,
    both 0-100.
    """

    raw: Floats
    quality: Floats


def fit(seen: Seen, quality: Floats, groups: Sequence[Group], course: Course) -> Fitted:
    rng = np.random.default_rng(course.seed)
    weight = np.ones(len(seen))
    if course.decoys > 0 and "answer" in groups:
        count = round(course.decoys * len(seen))
        worthless = [_other_answers(seen, count, rng)]
        if course.nulls is not None:
            worthless.append(_null_answers(seen, course.nulls, count, rng))
        seen = joined([seen, *worthless])
        quality = np.concatenate([quality, np.zeros(len(seen) - len(quality))])
        weight = np.ones(len(seen))
    basis = fit_basis(seen, groups)
    x, y = basis.columns(seen), quality / 100.0
    return Fitted(basis, fit_line(x, y, weight, RIDGE), boost(x, y, weight, course.growth, course.seed))


def cross(
    seen: Seen, quality: Floats, questions: Sequence[str], groups: Sequence[Group], course: Course
) -> Crossed:
    """`questions` (n) says which rows belong together."""
    fold = folds_of(questions, course.folds, course.seed)
    raw = np.zeros(len(seen))
    for k in range(course.folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        fitted = fit(seen.take(inside), quality[inside], groups, course)
        raw[outside] = raw_score(fitted.line, fitted.trees, fitted.basis.columns(seen.take(outside)))
    calibrated = np.zeros(len(seen))
    for k in range(course.folds):
        calibrated[fold == k] = smoothed(raw[fold != k], quality[fold != k])(raw[fold == k])
    return Crossed(raw, calibrated)


def train(
    stage: str,
    seen: Seen,
    quality: Floats,
    questions: Sequence[str],
    groups: Sequence[Group],
    course: Course,
) -> tuple[Head, Crossed]:
    """Raises `BadVerdict` where there is too little to learn from."""
    if len(seen) < ROWS_MIN or len(set(questions)) < 2 * course.folds:
        raise BadVerdict(
            f"rows of stage {stage!r}" if stage else "rows",
            f"{len(seen)} rows of {len(set(questions))} questions are too few",
            f"give {ROWS_MIN} rows of {2 * course.folds} questions or more",
        )
    if quality.min() == quality.max():
        raise BadVerdict(
            "rows", f"all have quality {quality[0]:g}", "give answers that differ in what they are worth"
        )
    crossed = cross(seen, quality, questions, groups, course)
    fitted = fit(seen, quality, groups, course)
    calibration = smoothed(crossed.raw, quality)
    at, spread = _spread(crossed.raw, quality, calibration)
    head = Head(
        stage,
        fitted.basis,
        fitted.line,
        trees=fitted.trees,
        calibration=calibration,
        spread_at=at,
        spread=spread,
        measured=measures(crossed.quality, quality),
    )
    return head, crossed


def measures(score: Floats, quality: Floats) -> dict[str, Any]:
    """`auc` is None where all answers are right or all wrong; `ece` in points of 0-100."""
    told = agreement(score, quality >= RIGHT)
    return {
        "rows": len(score),
        "mean_quality": float(quality.mean()),
        "auc": None if told is None else told.auc,
        "auc_standard_error": None if told is None else told.standard_error,
        "ece": calibration_error(reliability(score, quality)),
        "correlation": float(np.corrcoef(score, quality)[0, 1]) if score.std() > 0 else 0.0,
    }


def folds_of(questions: Sequence[str], folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each row: questions are dealt out at random, so that all folds have about as many."""
    names, at = np.unique(np.array(questions, dtype=np.str_), return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(names)) % folds
    return np.asarray(dealt[at], dtype=np.int64)


def _other_answers(seen: Seen, count: int, rng: np.random.Generator) -> Seen:
    """Questions of `seen` with other rows' answers and certainty; fewer than `count` where both are the same."""
    asked, answered = rng.integers(len(seen), size=count), rng.integers(len(seen), size=count)
    # Vectors are of length 1 in float32: the same question has a cosine of 1 but for its last digits.
    same = (seen.question[asked] * seen.question[answered]).sum(axis=1) > 1 - 1e-6
    return _answered_with(seen.take(asked[~same]), seen.take(answered[~same]))


def _null_answers(seen: Seen, nulls: Seen, count: int, rng: np.random.Generator) -> Seen:
    """Questions of `seen`, each with one of `nulls` and the certainty of the question's own answer."""
    asked = seen.take(rng.integers(len(seen), size=count))
    given = nulls.take(rng.integers(len(nulls), size=count))
    return replace(_answered_with(asked, given), certainty=asked.certainty)


def _answered_with(asked: Seen, given: Seen) -> Seen:
    return replace(given, question=asked.question, question_shape=asked.question_shape)


def _spread(raw: Floats, quality: Floats, calibration: Calibration) -> tuple[Floats, Floats]:
    """Standard deviation of quality about the calibration, in bins of about equal counts."""
    order = np.argsort(raw, kind="stable")
    squares = np.square(quality - calibration(raw))
    parts = [part for part in np.array_split(order, SPREAD_BINS) if len(part)]
    at = np.array([raw[part].mean() for part in parts])
    return at, np.sqrt(np.array([squares[part].mean() for part in parts]))
