"""Gradient-boosted trees on the logistic loss, in numpy.

Problem: given columns x (n, d) and targets y in 0-1, find f(x) = bias + sum of trees that makes sum -y log
p - (1 - y) log(1 - p), p = 1 / (1 + exp(-f)), small on rows not seen. Each tree is fitted to the loss's
first and second derivative (Friedman 2001; the gain of a split and a leaf's value are equations 6 and 7 of
Chen and Guestrin, XGBoost, 2016), on columns cut at quantiles. What is NaN goes below every cut. Targets
need not be 0 or 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.features import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown. `smallest` is the least sum of second derivatives in a leaf, `ridge` is added to
    it."""

    trees: int = 200
    depth: int = 3
    rate: float = 0.05
    cuts: int = 24
    ridge: float = 2.0
    smallest: float = 3.0
    columns: float = 0.3
    """Share of the columns that each tree may use, drawn anew."""
    rows: float = 0.7
    """Share of the rows that each tree is fitted on."""


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Complete trees of one depth D: `column` and `cut` (trees, 2^D - 1), in breadth-first order, `leaf`
    (trees, 2^D).

    A row goes right where its column is above the cut. `bias` is added.
    """

    column: Ints
    cut: Floats
    leaf: Floats
    bias: float

    def __call__(self, x: Floats) -> Floats:
        """Log-odds of (n, d): (n)."""
        trees, inner = self.column.shape
        node = np.zeros((len(x), trees), dtype=np.int64)
        each = np.arange(trees)
        while (node < inner).all() and inner:
            above = np.take_along_axis(x, self.column[each, node], axis=1) > self.cut[each, node]
            node = 2 * node + 1 + above
        return np.asarray(self.bias + self.leaf[each, node - inner].sum(axis=1), dtype=np.float64)


def boost(x: Floats, y: Floats, weight: Floats, growth: Growth, rng: np.random.Generator) -> Trees:
    """Of columns (n, d), targets (n) in 0-1 and weights (n)."""
    cuts = _cuts(x, growth.cuts)
    level = np.stack(
        [np.searchsorted(cuts[j], _low(x[:, j]), side="left") for j in range(x.shape[1])], axis=1
    )
    mean = float(np.clip(np.average(y, weights=weight), 1e-3, 1 - 1e-3))
    bias = float(np.log(mean / (1 - mean)))
    f = np.full(len(x), bias)
    grown: list[tuple[Ints, Ints, Floats]] = []
    for _ in range(growth.trees):
        p = 1.0 / (1.0 + np.exp(-f))
        drawn = weight * (rng.random(len(x)) < growth.rows)
        some = np.sort(rng.permutation(x.shape[1])[: max(1, round(growth.columns * x.shape[1]))])
        tree = _grow(level, some, drawn * (p - y), drawn * np.maximum(p * (1 - p), 1e-6), growth)
        column, at, leaf, where = tree
        f += leaf[where]
        grown.append((column, at, leaf))
    column = np.array([t[0] for t in grown])
    at = np.array([t[1] for t in grown])
    return Trees(column, _cut_values(cuts, column, at), np.array([t[2] for t in grown]), bias)


def _low(x: Floats) -> Floats:
    return np.where(np.isnan(x), -np.inf, x)


def _cuts(x: Floats, count: int) -> list[Floats]:
    """Of each column its inner quantiles; a row's level is the number of cuts below it, so NaN has level
    0."""
    found = []
    for column in x.T:
        known = column[~np.isnan(column)]
        inner = np.quantile(known, np.linspace(0, 1, count + 2)[1:-1]) if len(known) else np.zeros(0)
        floor = [np.nextafter(known.min(), -np.inf)] if len(known) < len(column) and len(known) else []
        found.append(np.unique(np.concatenate([floor, inner])))
    return found


def _cut_values(cuts: list[Floats], column: Ints, at: Ints) -> Floats:
    """The numbers behind the cuts' indices; an index beyond the last sends all rows left."""
    value = np.full(at.shape, np.inf)
    for j, known in enumerate(cuts):
        mine = (column == j) & (at < len(known))
        value[mine] = known[at[mine]]
    return value


def _grow(
    level: Ints, some: Ints, gradient: Floats, curvature: Floats, growth: Growth
) -> tuple[Ints, Ints, Floats, Ints]:
    """One tree: columns, indices of cuts, leaves, and each row's leaf."""
    bins = growth.cuts + 2
    inner = 2**growth.depth - 1
    column = np.zeros(inner, dtype=np.int64)
    at = np.full(inner, bins, dtype=np.int64)
    node = np.zeros(len(level), dtype=np.int64)
    own = level[:, some] + np.arange(len(some)) * bins
    for depth in range(growth.depth):
        first, count = 2**depth - 1, 2**depth
        key = (own + ((node - first) * (len(some) * bins))[:, None]).ravel()
        size = count * len(some) * bins
        g = np.bincount(key, np.repeat(gradient, len(some)), size).reshape(count, len(some), bins)
        h = np.bincount(key, np.repeat(curvature, len(some)), size).reshape(count, len(some), bins)
        g_left, h_left = g.cumsum(axis=2), h.cumsum(axis=2)
        g_all, h_all = g_left[:, :, -1:], h_left[:, :, -1:]
        gain = _worth(g_left, h_left, growth) + _worth(g_all - g_left, h_all - h_left, growth)
        gain -= _worth(g_all, h_all, growth)
        thin = (h_left < growth.smallest) | (h_all - h_left < growth.smallest)
        gain[thin] = 0.0
        best = gain.reshape(count, -1).argmax(axis=1)
        splits = gain.reshape(count, -1)[np.arange(count), best] > 1e-9
        column[first : first + count] = some[best // bins]
        at[first : first + count] = np.where(splits, best % bins, bins)
        node = 2 * node + 1 + (level[np.arange(len(level)), column[node]] > at[node])
    leaf_of = node - inner
    g_leaf = np.bincount(leaf_of, gradient, inner + 1)
    h_leaf = np.bincount(leaf_of, curvature, inner + 1)
    return column, at, -growth.rate * g_leaf / (h_leaf + growth.ridge), leaf_of


def _worth(g: Floats, h: Floats, growth: Growth) -> Floats:
    return np.asarray(np.square(g) / (h + growth.ridge))
