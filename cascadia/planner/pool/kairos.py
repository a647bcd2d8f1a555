"""Kairos' choice of instances under a budget (section 5.2), kept beside the integer program for comparison.

An instance serves one query at a time: t[j,k] seconds of size k on type j, 0 the base type, which serves all sizes in
time; an auxiliary type serves those up to some size. Of each configuration (instances by type) the paper estimates what
it could serve (Eq. 15), picks one by these estimates alone, or (Kairos+) tries configurations by falling estimate.

The estimate takes every auxiliary type to serve as large queries as the one that serves the largest, and shares the
small ones out as if each type took all sizes alike. With several sizes that an auxiliary type serves it is no bound,
though with one type it misses by little. `Fluid` is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.linear import INF, LinearProgram

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAME_BASE, CLOSE = 3, 10
"""Of the so many highest estimates, if all have as many instances of the base type, the highest is picked; else of the
so many highest that which is nearest to the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Types:
    """`seconds` (types, sizes), sizes ascending, with their `shares` (0-1); `in_time` where a size is served within the
    target. The first type is the base."""

    seconds: Floats
    shares: Floats
    in_time: NDArray[np.bool_]


def configurations(usd: Floats, most: Ints, budget_usd: float) -> Ints:
    """All numbers of instances (m, types) within the budget but none at all."""
    most = np.minimum(
        most, np.where(usd > 0, (budget_usd + 1e-9) // np.maximum(usd, 1e-12), most).astype(np.int64)
    )
    grids = np.meshgrid(*(np.arange(n + 1) for n in most.tolist()), indexing="ij")
    every = np.stack([grid.ravel() for grid in grids], axis=1)
    found: Ints = every[(every @ usd <= budget_usd + 1e-9) & (every.sum(axis=1) > 0)]
    return found


def estimates_rps(types: Types, configs: Ints) -> Floats:
    """Eq. 15 of each configuration."""
    base, others = types.seconds[0], types.seconds[1:]
    u, v = configs[:, 0].astype(np.float64), configs[:, 1:].astype(np.float64)
    # The types in the configuration alone say how large the largest query is that an auxiliary one serves.
    found = np.zeros(len(configs))
    for present in np.unique(configs[:, 1:] > 0, axis=0):
        mine = ((configs[:, 1:] > 0) == present).all(axis=1)
        reach = types.in_time[1:][present]
        small = reach.any(axis=0) if len(reach) else np.zeros(len(types.shares), dtype=bool)
        f = float(types.shares[small].sum())
        q_b = 1.0 / float(types.shares @ base)
        if f <= 0:
            found[mine] = u[mine] * q_b
            continue
        q_a = 1.0 / (others[:, small] @ types.shares[small] / f)
        served = v[mine] @ q_a
        if f >= 1 - 1e-12:
            found[mine] = served + u[mine] * q_b
            continue
        q_plus = (1 - f) / float(types.shares[~small] @ base[~small])
        large, c = u[mine] * q_plus, served * (1 - f) / f  # Eq. 14
        slack = np.where(large > 0, (large - c) / np.maximum(large, 1e-300), 0.0)
        found[mine] = np.where(large <= c, large / (1 - f), served / f + slack * u[mine] * q_b)
    return found


class Fluid:
    """The linear program over sizes (`rate_bound.py`) of one configuration after another: queries a second that none
    passes."""

    def __init__(self, types: Types) -> None:
        count, sizes = types.seconds.shape
        self.program = LinearProgram(1)
        columns = {
            (j, k): self.program.column() for j in range(count) for k in range(sizes) if types.in_time[j, k]
        }
        for k in range(sizes):
            mine = {columns[j, k]: 1.0 for j in range(count) if (j, k) in columns}
            self.program.row({0: -float(types.shares[k])} | mine, 0.0, 0.0)
        self.rows = [
            self.program.row(
                {columns[j, k]: float(types.seconds[j, k]) for k in range(sizes) if (j, k) in columns},
                -INF,
                0.0,
            )
            for j in range(count)
        ]

    def bound_rps(self, config: Ints) -> float:
        for row, instances in zip(self.rows, config.tolist(), strict=True):
            self.program.limit(row, -INF, float(instances))
        return self.program.largest({0: 1.0}).value


def picked(configs: Ints, estimates: Floats) -> int:
    """Index of the configuration that Kairos picks without trying any (end of section 5.2)."""
    order = np.argsort(-estimates, kind="stable")
    first = configs[order[:SAME_BASE]]
    if (first[:, 0] == first[0, 0]).all():
        return int(order[0])
    near = configs[order[:CLOSE]].astype(np.float64)
    apart = ((near[:, None, :] - near[None, :, :]) ** 2).sum(axis=(1, 2))
    return int(order[int(apart.argmin())])


class Tried(NamedTuple):
    """The best configuration's index, what it serves, and the indices tried, in order."""

    best: int
    rps: float
    order: list[int]


def kairos_plus(configs: Ints, estimates: Floats, evaluate: Callable[[Ints], float]) -> Tried:
    """Algorithm 1: configurations by falling estimate; those whose estimate is no more than the best found, and those
    within one that was tried, are left out."""
    left = np.ones(len(configs), dtype=bool)
    best, rps, order = -1, 0.0, []
    for at in np.argsort(-estimates, kind="stable").tolist():
        if not left[at]:
            continue
        found = evaluate(configs[at])
        order.append(at)
        if found > rps:
            best, rps = at, found
            left &= estimates > rps
        left &= ~(configs <= configs[at]).all(axis=1)
    return Tried(best, rps, order)
