"""Training of a judge's ramp on its own verdicts: a third of the cases teaches the map, one the doubt, one settings.

The doubt is of errors on cases that the map was not fitted to: on its own it makes hardly any.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cascadia.exits.path import calibrated
from cascadia.exits.readings import Floats, Ints, Readings
from cascadia.judge_service.ramp import EarlyEncoder, JudgeRamp, columns_of, doubt_of, seen_by
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.head.features import Seen

LEAST = 200
"""Cases."""
OF_A_HEAD = 20
"""Cases to learn a head's doubt from; with fewer nobody leaves."""
RIDGE = 1e-3
STRENGTH = 0.03


def fit_ramp(
    judge: EmbeddingJudge, early: EarlyEncoder, cases: Sequence[Case], sha256: str, points: float, risk: float
) -> tuple[JudgeRamp, Readings]:
    """The ramp, and what it says of the third that neither map nor doubt was fitted to. Raises ValueError for too few
    cases."""
    if len(cases) < LEAST:
        raise ValueError(f"has {len(cases)} cases; give at least {LEAST}")
    whole, part = seen_by(judge.encoder, judge, cases), seen_by(early, judge, cases)
    third = np.arange(len(cases)) % 3
    doubted, kept = third == 1, third == 2
    weight, bias = _map(part, whole, np.flatnonzero(third == 0))
    ramp = JudgeRamp(sha256, weight, bias, {}, points, calibrated(_none(), risk))
    told = ramp.mapped(part)
    heads = np.array([judge.heads.index(judge.head_for(case)) for case in cases])
    differs, doubt = np.zeros(len(cases), dtype=np.bool_), np.ones(len(cases))
    for head in np.unique(heads).tolist():
        rows = np.flatnonzero(heads == head)
        score, columns = columns_of(judge, head, told.take(rows))
        differs[rows] = np.abs(score - judge.heads[head].score(whole.take(rows)).quality) > points
        if doubted[rows].sum() < OF_A_HEAD:
            continue
        weights = _doubt(columns[doubted[rows]], differs[rows][doubted[rows]])
        ramp.doubts[head] = weights
        doubt[rows] = doubt_of(weights, columns)
    readings = Readings(
        differs[kept, None].astype(np.int64), doubt[kept, None], np.zeros(kept.sum(), dtype=np.int64)
    )
    return replace(ramp, path=calibrated(readings, risk)), readings


def _map(part: Seen, whole: Seen, rows: Ints) -> tuple[Floats, Floats]:
    """Ridge regression from vectors of the first part to those of the whole; empty texts are left out."""
    x = np.concatenate([part.question[rows], part.answer[rows]])
    y = np.concatenate([whole.question[rows], whole.answer[rows]])
    there = np.linalg.norm(x, axis=1) > 0
    x, y = x[there], y[there]
    middle, aim = x.mean(axis=0), y.mean(axis=0)
    square = (x - middle).T @ (x - middle) + RIDGE * len(x) * x.var() * np.eye(x.shape[1])
    weight = np.linalg.solve(square, (x - middle).T @ (y - aim))
    return weight, aim - middle @ weight


def _doubt(columns: Floats, differs: Floats) -> Floats:
    """Logistic regression; where all are alike, one bias."""
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(differs)) < 2:
        bias = 5.0 if differs[0] else -5.0
        return np.append(np.zeros(columns.shape[1]), bias)
    mean, spread = columns.mean(axis=0), columns.std(axis=0) + 1e-6
    found = LogisticRegression(C=STRENGTH, max_iter=300).fit((columns - mean) / spread, differs)
    weights = found.coef_[0] / spread
    return np.append(weights, found.intercept_[0] - weights @ mean)


def _none() -> Readings:
    return Readings(np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)), np.zeros(0, dtype=np.int64))
