"""Fits the line and the trees of a head, with scikit-learn.

Both minimise the logistic loss over columns x (n, d), targets y (n) in 0-1 and weights (n). A target between 0 and 1
is one row that is right and one that is wrong, with its weight shared between them: the loss is the same.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cascadia_judge.head.features import Floats
from cascadia_judge.head.learned import Ints, Line, Trees

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

STEPS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Growth:
    """Settings by which trees are boosted (Friedman 2001, 2002). `smallest`: rows in a leaf, at least."""

    trees: int = 200
    depth: int = 3
    rate: float = 0.05
    smallest: int = 10
    columns: float = 0.3
    """Share of the columns that each split may use, drawn anew."""
    rows: float = 0.7
    """Share of the rows that each tree is fitted on."""


def fit_line(x: Floats, y: Floats, weight: Floats, ridge: float) -> Line:
    """Fits a logistic regression with `ridge` / 2 |w|^2 added to the loss's mean, w being of standardised
    columns. NaN counts as the mean.
    """
    from sklearn.linear_model import LogisticRegression

    known = ~np.isnan(x)
    total = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / total
    centred = np.where(known, x - mean, 0.0)
    spread = np.sqrt(np.square(centred).sum(axis=0) / total)
    # A column that never varies says nothing: its weight is 0, not a division by 0.
    scale = np.where(spread > 1e-12, 1.0 / np.maximum(spread, 1e-12), 0.0)
    z, right, share = _hard(centred * scale, y, weight / weight.sum())
    found = LogisticRegression(C=1.0 / ridge, tol=1e-9, max_iter=STEPS_MAX).fit(z, right, share)
    coefficients = found.coef_[0] * scale
    return Line(coefficients, float(found.intercept_[0] - coefficients @ mean), mean)


def boost(x: Floats, y: Floats, weight: Floats, growth: Growth, seed: int) -> Trees:
    """Fits boosted trees; what is NaN lies below every cut."""
    from sklearn.ensemble import GradientBoostingClassifier

    low = np.where(np.isnan(x), np.inf, x).min(axis=0)
    filled, right, share = _hard(np.where(np.isnan(x), np.where(np.isinf(low), 0.0, low - 1.0), x), y, weight)
    grown = GradientBoostingClassifier(
        n_estimators=growth.trees,
        max_depth=growth.depth,
        learning_rate=growth.rate,
        min_samples_leaf=growth.smallest,
        max_features=growth.columns,
        subsample=growth.rows,
        random_state=seed,
    ).fit(filled, right, share)
    parts = [_complete(tree, growth) for tree in grown.estimators_[:, 0]]
    column, cut, leaf = (np.array(part) for part in zip(*parts, strict=True))
    mean = float(np.average(right, weights=share))
    return Trees(column, cut, leaf, float(np.log(mean / (1 - mean))))


def _hard(x: Floats, y: Floats, weight: Floats) -> tuple[Floats, Ints, Floats]:
    """Rows that are right or wrong, for those of (n) whose target may lie between. Where all are right, or all wrong, a
    thousandth is taken for the other."""
    if y.min() == y.max():
        y = np.clip(y, 1e-3, 1 - 1e-3)
    rows = np.concatenate([x, x])
    right = np.repeat([1, 0], len(x))
    share = np.concatenate([weight * y, weight * (1 - y)])
    return rows[share > 0], right[share > 0], share[share > 0]


def _complete(tree: "DecisionTreeRegressor", growth: Growth) -> tuple[Ints, Floats, Floats]:
    """Columns, cuts and leaves of a tree with all its 2^depth leaves: where it ends early, all rows go left."""
    inner, nodes = 2**growth.depth - 1, tree.tree_
    column, cut, leaf = np.zeros(inner, np.int64), np.full(inner, np.inf), np.zeros(inner + 1)
    at = [0] * (2 * inner + 1)
    for place in range(inner):
        here = at[place]
        if nodes.children_left[here] < 0:
            at[2 * place + 1] = at[2 * place + 2] = here
            continue
        column[place], cut[place] = nodes.feature[here], nodes.threshold[here]
        at[2 * place + 1], at[2 * place + 2] = nodes.children_left[here], nodes.children_right[here]
    leaf[:] = growth.rate * nodes.value[at[inner:], 0, 0]
    return column, cut, leaf
