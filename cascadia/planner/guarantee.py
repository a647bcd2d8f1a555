"""A lower confidence bound on each routing's quality that survives choosing among the routings.

Given m prompts drawn independently from the traffic, Q(r) is the quality of routing r on all of that traffic.
Planning picks the cheapest r with lower(r) >= bar among thousands, so the winner's mean is high partly by
luck. For every bar fixed beforehand:

    P(some routing has lower(r) >= bar > Q(r)) <= 1 - confidence   (up to bootstrap error)

1. Draw weights w ~ Dirichlet(1, ..., 1) over the m prompts and one more prompt of quality 0 (Rubin 1981, with
   the worst case added: Gaffke 2005, Learned-Miller and Thomas 2019). For one routing with answers that are
   right or wrong, the quantiles of sum w q are Clopper and Pearson's exact bound; a sample without a single
   wrong answer is no proof of perfection.
2. The same draws for every routing show how their errors move together. A routing is contested at a bar if
   its draws lie on both sides; only those can pass wrongly (moment selection: Hansen 2005, Andrews and Soares
   2010). Take the highest rank such that at most 1 - confidence of the draws rank lower in any contested one.
3. The bound is the order statistic of that rank; from the lowest bar up, each routing rises until it fails.

What is contested is taken over a net of all routings, not over the frontier, since who survives to the
frontier is luck too. docs/models/quality.md has the assumptions and the measured miss rates.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.frontier import all_routings
from cascadia.planner.routings import Ints, Routings, outcomes

Singles = NDArray[np.float32]

METHOD = "simultaneous bootstrap with a worst-case prompt"

DRAWS = 2_000
DRAWS_IN_TAIL = 40
"""At least so many draws lie beyond the confidence level, whatever it is..."""
CONFIDENCE_MAX = 0.998
"""...up to this one."""

NET = 800
"""Routings in the net, shared among the subsets of stages..."""
NET_PER_SUBSET = (64, 192)
"""...within these limits."""
NET_WITH_SKIPS = 4
"""So many times as many where stages may be skipped, which is a second level a gate."""

BARS = 24
"""Bars at which contested routings are looked up; between two of them both sets count."""

GROUPS = 2_000
"""More prompts than this are weighted in groups: their means are as good a sample, at a bounded cost."""

CELLS = 1 << 24
"""Routings times prompts worked on at once (64 MiB)."""


def with_bounds(
    table: QualityTable, routings: Routings, confidence: float, seed: int
) -> tuple[Routings, str]:
    """`routings` with `lower` set, and the method's name."""
    lower, method = lower_bounds(table, routings, confidence, seed)
    return replace(routings, lower=lower), method


def lower_bounds(table: QualityTable, routings: Routings, confidence: float, seed: int) -> tuple[Floats, str]:
    """Lower bound of each routing's quality (k), 0-100 and never above its mean, and the method's name.

    Depends on the table, the confidence and the seed, and for each routing on that routing alone: which
    others are passed makes no difference. Raises `BadInput` for a confidence it cannot give.
    """
    if not 0.0 < confidence <= CONFIDENCE_MAX:
        raise BadInput(
            "quality.confidence", f"{confidence:g} is not possible", "write e.g. 0.95 (at most 0.998)"
        )
    miss = 1.0 - confidence
    draws = max(DRAWS, math.ceil(DRAWS_IN_TAIL / miss))
    tail = math.floor(miss * draws + 1e-9)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    groups = min(len(table), math.ceil(len(table) / math.ceil(len(table) / GROUPS)))
    weights = rng.standard_exponential((groups + 1, draws), dtype=np.float32)
    weights /= weights.sum(axis=0)

    bars, ranks = _ranks(_means(table, _net(table), order, weights[:-1]), tail)
    means = _means(table, routings, order, weights[:-1])
    lowest = np.sort(np.partition(means, tail, axis=1)[:, : tail + 1], axis=1).astype(np.float64)
    return np.clip(_rise(lowest, bars, ranks), 0.0, routings.mean), METHOD


def _net(table: QualityTable) -> Routings:
    subsets = 2 ** len(table.stages) - 1 - len(table.stages)
    size = int(np.clip(NET // max(subsets, 1), *NET_PER_SUBSET))
    size *= 1 if table.foreseen is None else NET_WITH_SKIPS
    return all_routings(table, exact_up_to=size, thinned_to=size)


def _means(table: QualityTable, routings: Routings, order: Ints, weights: Singles) -> Singles:
    """Each routing's quality under each draw: (k, draws)."""
    count, groups = len(table), len(weights)
    starts = np.arange(groups) * count // groups
    means = np.empty((len(routings), weights.shape[1]), dtype=np.float32)
    step = max(1, CELLS // count)
    for first in range(0, len(routings), step):
        some = slice(first, first + step)
        value = outcomes(table, routings.take(np.arange(len(routings))[some]))
        if groups < count:
            value = np.add.reduceat(value[:, order], starts, axis=1) * np.float32(groups / count)
        np.matmul(value, weights, out=means[some])
    return means


def _ranks(means: Singles, tail: int) -> tuple[Floats, Ints]:
    """Bars b_0 < ... < b_n, and for each interval between two the rank (0: lowest draw) that bounds there.

    `means` (routings of the net, draws). A rank is at most `tail`, the rank for a single routing.
    """
    draws = means.shape[1]
    least, most = means.min(axis=1), means.max(axis=1)
    lowest = np.argpartition(means, tail, axis=1)[:, :tail]
    by_value = np.argsort(np.take_along_axis(means, lowest, axis=1), axis=1)
    draw_of_rank = np.take_along_axis(lowest, by_value, axis=1)

    bars = np.linspace(float(least.min()), float(most.max()), BARS + 1)
    ranks = np.full(BARS, tail, dtype=np.int64)
    for interval, (low, high) in enumerate(pairwise(bars)):
        contested = draw_of_rank[(least <= high) & (most >= low)]
        worst = np.full(draws, tail, dtype=np.int64)
        # Ranks from high to low, so that the lowest rank that a draw has anywhere is written last.
        for rank in range(tail - 1, -1, -1):
            worst[contested[:, rank]] = rank
        # As many draws as `tail` may rank lower than the bound somewhere among the contested.
        ranks[interval] = np.partition(worst, tail)[tail]
    return bars, ranks


def _rise(lowest: Floats, bars: Floats, ranks: Ints) -> Floats:
    """The highest bar that each routing passes with all lower ones; `lowest` (k, tail + 1) ascends."""
    lower = np.full(len(lowest), -np.inf)
    rising = np.ones(len(lowest), dtype=np.bool_)
    for high, rank in zip(bars[1:], ranks, strict=True):
        bound = lowest[:, rank]
        lower = np.where(rising, np.maximum(lower, np.minimum(bound, high)), lower)
        rising &= bound >= high
    return lower
