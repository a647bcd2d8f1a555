"""Learned functions, as numbers: a line and trees, both from columns (n, d) to log-odds (n). `learners.py` fits
them.

Serving needs no more than this, so that a head is a file of numbers, and judging imports no library of learners.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.head.features import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """`weight` (d) is of the columns as they come, not standardised; `mean` (d) stands in for NaN."""

    weight: Floats
    bias: float
    mean: Floats

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(np.where(np.isnan(x), self.mean, x) @ self.weight + self.bias, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Complete trees of one depth D: `column` and `cut` (trees, 2^D - 1), in breadth-first order, `leaf`
    (trees, 2^D).

    A row goes right where its column is above the cut, and left where it is NaN. `bias` is added.
    """

    column: Ints
    cut: Floats
    leaf: Floats
    bias: float

    def __call__(self, x: Floats) -> Floats:
        trees, inner = self.column.shape
        node = np.zeros((len(x), trees), dtype=np.int64)
        each = np.arange(trees)
        while (node < inner).all() and inner:
            above = np.take_along_axis(x, self.column[each, node], axis=1) > self.cut[each, node]
            node = 2 * node + 1 + above
        return np.asarray(self.bias + self.leaf[each, node - inner].sum(axis=1), dtype=np.float64)
