"""Familiarity of a question: whether it is like those that a probe was trained on, by the hidden state at its end.

What training questions have in common lies along a few axes of their states (Pearson 1901). A question of another kind
sticks out of these: `stray` is the squared length of what they leave over, of standardised values. A probe says
nothing of what strays further than 99 % of training questions did, each from the axes of folds without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cascadia_judge.head.features import Floats

AXES = 24
"""At most; a quarter of the rows, or of the width, where that is less: axes of all there is leave nothing over."""
LIKE = 0.99
"""Share of training questions that count as like them."""


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """`mean` and `scale` (width) standardise; `directions` (width, k) are orthonormal."""

    mean: Floats
    scale: Floats
    directions: Floats

    def stray(self, question: Floats) -> Floats:
        """(n) for (n, width)."""
        standard = (question - self.mean) * self.scale
        return np.asarray(np.square(standard).sum(axis=1) - np.square(standard @ self.directions).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Familiar:
    """`unlike_rate` is the share of questions like those of training that lies beyond `cut`, at most (one-sided,
    99 %)."""

    axes: Axes
    cut: float
    unlike_rate: float

    def knows(self, question: Floats) -> bool:
        return bool(self.axes.stray(question[None, :])[0] <= self.cut)


def fit_axes(question: Floats) -> Axes:
    mean, spread = question.mean(axis=0), question.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)
    _, _, directions = np.linalg.svd((question - mean) * scale, full_matrices=False)
    kept = directions[: min(AXES, min(question.shape) // 4)]
    return Axes(mean, scale, np.ascontiguousarray(kept.T))


def fit_familiar(question: Floats, stray: Floats, upper: Callable[[int, int], float]) -> Familiar:
    """`stray` (n) of each question from the axes of others; `upper` bounds a share from (count, of)."""
    cut = float(np.quantile(stray, LIKE))
    return Familiar(fit_axes(question), cut, upper(int((stray > cut).sum()), len(stray)))
