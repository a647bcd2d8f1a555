"""Measure of how well a score tells right answers from wrong ones.

AUC: the probability that a right answer, drawn at random, has a higher score than a wrong one; ties count half. It is
the Mann-Whitney statistic over ranks, in O(n log n). 1 is a perfect judge, 0.5 one that guesses.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Agreement(NamedTuple):
    """`auc` 0-1 with its standard error, and the answers it rests on."""

    auc: float
    standard_error: float
    right: int
    wrong: int


def agreement(score: Floats, right: Bools) -> Agreement | None:
    """AUC of `score` (n) with `right` (n); None where all answers are right or all are wrong.

    The standard error is that of Hanley and McNeil (Radiology 143, 1982, equations 1 and 2).
    """
    if score.shape != right.shape or score.ndim != 1:
        raise BadVerdict("agreement", "scores and answers do not pair up", "give two arrays of one length")
    n1, n0 = int(right.sum()), int((~right).sum())
    if n1 == 0 or n0 == 0:
        return None
    _, at, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    auc = float((rank[at][right].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (n1 - 1) * (q1 - auc**2) + (n0 - 1) * (q2 - auc**2)
    return Agreement(auc, math.sqrt(max(0.0, variance) / (n1 * n0)), n1, n0)
