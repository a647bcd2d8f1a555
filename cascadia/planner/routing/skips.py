"""Skips: stages that a routing may skip, and the level of the quality that the question alone promises, below
which it does.

Every subset of stages has at most `SKIP_VECTORS` vectors of such levels, one level a gate, at even quantiles of what is
foreseen; the first of them skips nobody. The last stage of a subset is never skipped.
"""

from itertools import product

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.routings import SKIPS_NONE, Bools

SKIP_VECTORS = 64
EACH_AT_LEAST = 16
"""Fewer, where vectors of thresholds are limited to less than this many for each."""


def skip_vectors(table: QualityTable, gates: tuple[int, ...], limit: int) -> list[tuple[float, ...]]:
    """Levels below which each of `gates` skips its stage; the first vector skips none."""
    if table.foreseen is None:
        return [(SKIPS_NONE,) * len(gates)]
    each = _levels_each(len(gates), int(np.clip(limit // EACH_AT_LEAST, 1, SKIP_VECTORS)))
    return list(product(*(_skip_levels(table.foreseen[gate], each) for gate in gates)))


def _levels_each(gates: int, vectors: int) -> int:
    return max(1, int(vectors ** (1 / max(gates, 1)) + 1e-9))


def _skip_levels(foreseen: Floats, at_most: int) -> list[float]:
    """Levels of what is foreseen, at even quantiles where they are many; the first skips none."""
    level = np.unique(foreseen)
    if len(level) > at_most:
        level = np.unique(np.quantile(foreseen, np.arange(at_most) / at_most, method="inverted_cdf"))
    return [SKIPS_NONE, *level[level > foreseen.min()].tolist()]


def foresees_few(table: QualityTable) -> bool:
    """Tells whether every level of what is foreseen is tried."""
    gates = len(table.stages) - 1
    each = _levels_each(gates, SKIP_VECTORS)
    return table.foreseen is None or all(len(np.unique(row)) <= each for row in table.foreseen[:gates])


def entering(table: QualityTable, subset: tuple[int, ...], skips: tuple[float, ...]) -> list[Bools]:
    """Prompts that each stage of the subset is asked for an answer to if they come to it; the last to all."""
    every = np.ones(len(table), dtype=np.bool_)
    if table.foreseen is None:
        return [every] * len(subset)
    return [*(table.foreseen[gate] >= skip for gate, skip in zip(subset[:-1], skips, strict=True)), every]
