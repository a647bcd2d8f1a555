"""The routings worth pricing: those that no other beats in quality and in load on every stage.

Thresholds matter only up to the observed score levels, so over a table of m prompts there are finitely many
routings. Take a subset of n deployed stages with gates 1..n-1 before stages 2..n. With a_j(p) the level of
prompt p at gate j, t_j the lowest level that gate j accepts, and P_j = {p : a_1(p) < t_1, ..., a_j(p) < t_j}:

    prompts that reach stage j+1 are P_j
    sum of quality = sum over all p of q_1(p) + sum over j of sum over P_j of (q_{j+1}(p) - q_j(p))

Both are cumulative sums of n-dimensional histograms, so all routings of a subset cost a few passes over an
array of its level counts, however many prompts there are. DESIGN section 5.3; Cascadia section 3.3 searches
the same space (theta, thresholds H) by local moves.

Where the table foresees quality by the question alone, a stage with a gate may also be skipped below a level of that
(`skips.py`). A prompt that is skipped is one whose score lies below every level, and no load: so each vector of skip
levels is the same problem again.

Sums of quality are kept in integers of 1e-9 so that ties are ties.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.dominance import best_of_last_gates, non_dominated
from cascadia.planner.routing.routings import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    SKIPS_NONE,
    Bools,
    Ints,
    Routings,
    answered_by,
    decisions,
    joined,
    thin,
    without_unreached,
)
from cascadia.planner.routing.skips import SKIP_VECTORS, entering, foresees_few, skip_vectors

__all__ = [
    "ACCEPTS_ALL",
    "ACCEPTS_NONE",
    "SKIPS_NONE",
    "Routings",
    "all_routings",
    "answered_by",
    "decisions",
    "frontier",
    "thin",
    "undominated",
]


EXACT_UP_TO = 4_000_000
"""Where a subset of stages has more threshold vectors than this, all have their levels thinned..."""
THINNED_TO = 40_000
"""...to at most this many vectors each."""
SKIPPED = -1.0
"""The score of an answer that is not asked for: below every level."""

QUALITY_UNIT = 1e-9


def frontier(table: QualityTable) -> Routings:
    """All routings that none dominates (`undominated`)."""
    return undominated(all_routings(table, keep_worse=False))


def all_routings(
    table: QualityTable,
    *,
    exact_up_to: int = EXACT_UP_TO,
    thinned_to: int = THINNED_TO,
    keep_worse: bool = True,
) -> Routings:
    """Every subset of stages with every vector of thresholds at observed levels, thinned beyond a limit.

    A gate that accepts nothing, or everything, is not listed: leaving out its stage, or all later ones, is
    the same with less load. Without `keep_worse`, a vector that the same subset beats by its last gate alone
    is left out too.
    """
    stages = len(table.stages)
    # A threshold at the lowest level accepts all: the subset without the later stages is that routing.
    levels = [np.unique(score)[1:] for score in table.score[: stages - 1]]
    # A gate with a single level stands in no subset, so the largest one has all the others.
    most = _product([level for level in levels if len(level)])
    few = most * (1 if table.foreseen is None else SKIP_VECTORS) <= exact_up_to
    limit = exact_up_to if few else thinned_to
    parts = [
        _subset(table, subset, skips, limit // len(vectors), keep_worse)
        for subset in _subsets(stages)
        for vectors in [skip_vectors(table, subset[:-1], limit)]
        for skips in vectors
    ]
    return without_unreached(replace(joined(parts), exact=few and foresees_few(table)))


def undominated(routings: Routings) -> Routings:
    """The members of `routings` that none dominates in (mean up, reached on each stage down), by falling mean.

    Of routings alike in all of these one is kept: that with fewer stages, then with lower thresholds.
    """
    # Fewer stages and lower thresholds first: of equals, the filter keeps the first.
    total = np.rint(routings.mean / QUALITY_UNIT).astype(np.int64)
    order = np.argsort(routings.deployed.sum(axis=1), kind="stable")
    kept = order[non_dominated(routings.reached[order], total[order])]
    return routings.take(kept[np.argsort(-routings.mean[kept], kind="stable")])


def _subsets(stages: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, stages + 1):
        yield from combinations(range(stages), size)


def _subset(
    table: QualityTable, subset: tuple[int, ...], skips: tuple[float, ...], limit: int, keep_worse: bool
) -> Routings:
    """Routings of at most `limit` vectors of thresholds of one deployed subset with `skips`, as in the module's
    head.
    """
    prompts, gates = len(table), subset[:-1]
    enters = entering(table, subset, skips)
    scores = [
        np.where(inside, table.score[gate], SKIPPED) for gate, inside in zip(gates, enters, strict=False)
    ]
    levels = [np.unique(score)[1:] for score in scores]
    if _product(levels) > limit:
        levels = _thinned(scores, levels, limit)
    shape = tuple(len(level) for level in levels)

    total, reached = _sums(table, subset, scores, enters, levels)
    if keep_worse or not gates:
        chosen = np.arange(total.size)
    else:
        # Without a second to last gate every row of the table is one and the same load: one block of one row.
        block = (int(np.prod(shape[:-2])), shape[-2] if len(shape) > 1 else 1, shape[-1])
        last = np.broadcast_to(reached[-1], shape).reshape(block)
        chosen = np.flatnonzero(best_of_last_gates(total.reshape(block), last, prompts))

    at = np.unravel_index(chosen, shape) if gates else ()
    size = len(chosen)
    thresholds = np.full((size, len(table.stages)), ACCEPTS_NONE)
    skip_below = np.full((size, len(table.stages)), SKIPS_NONE)
    share = np.zeros((size, len(table.stages)))
    for gate, level, skip, index in zip(gates, levels, skips, at, strict=True):
        thresholds[:, gate] = level[index]
        if table.foreseen is not None and skip > SKIPS_NONE:
            # Where whoever is not skipped is accepted whatever the score, there is nothing to judge.
            lowest = table.score[gate][table.foreseen[gate] >= skip].min(initial=np.inf)
            thresholds[thresholds[:, gate] <= lowest, gate] = ACCEPTS_ALL
        skip_below[:, gate] = skip
    thresholds[:, subset[-1]] = ACCEPTS_ALL
    for depth, stage in enumerate(subset):
        share[:, stage] = reached[depth][at[:depth]] / prompts
    deployed = np.zeros((size, len(table.stages)), dtype=np.bool_)
    deployed[:, subset] = True
    # A sum of rounded qualities may pass a hundred by the rounding.
    mean = np.minimum(total.ravel()[chosen] * (QUALITY_UNIT / prompts), 100.0)
    return Routings(
        thresholds[:, :-1], deployed, share, mean=mean, lower=np.zeros(size), skip_below=skip_below[:, :-1]
    )


def _sums(
    table: QualityTable,
    subset: tuple[int, ...],
    scores: list[Floats],
    enters: list[Bools],
    levels: list[Floats],
) -> tuple[Ints, list[Ints]]:
    """Total quality (T_1, ..., T_{n-1}) in `QUALITY_UNIT`, and how many prompts run on each stage."""
    quality = np.rint(table.quality / QUALITY_UNIT).astype(np.int64)
    shape = tuple(len(level) for level in levels)
    total = np.full(shape, quality[subset[0]].sum())
    reached = [np.array(enters[0].sum(), dtype=np.int64)]
    inside = np.arange(len(table))
    code: list[Ints] = []
    for depth, (level, score, gate, after) in enumerate(
        zip(levels, scores, subset[:-1], subset[1:], strict=True), start=1
    ):
        # Threshold i rejects a prompt iff its score lies below: iff at most i thresholds are <= the score.
        below = np.searchsorted(level, score[inside], side="right")
        rejected = below < len(level)
        # Whoever the highest threshold accepts is gone for every later gate: arrays shrink from gate to gate.
        inside, code = inside[rejected], [c[rejected] for c in code] + [below[rejected]]
        counts, gain = np.zeros(shape[:depth], dtype=np.int64), np.zeros(shape[:depth], dtype=np.int64)
        np.add.at(counts, tuple(code), enters[depth][inside].astype(np.int64))
        np.add.at(gain, tuple(code), quality[after, inside] - quality[gate, inside])
        # A cell has those whom no lower thresholds reject; all higher ones reject them too.
        for axis in range(depth):
            np.cumsum(counts, axis=axis, out=counts)
            np.cumsum(gain, axis=axis, out=gain)
        reached.append(counts)
        total += gain.reshape(gain.shape + (1,) * (len(shape) - depth))
    return total, reached


def _product(levels: list[Floats]) -> int:
    product = 1
    for level in levels:
        product *= len(level)
    return product


def _thinned(scores: list[Floats], levels: list[Floats], limit: int) -> list[Floats]:
    """Levels, as many per gate as `limit` vectors allow, at even quantiles of the gate's scores."""
    cap = max(len(level) for level in levels)
    while cap > 1 and _product([level[:cap] for level in levels]) > limit:
        # Two per cent at a time: gates with few levels keep all of theirs, and the others share what that leaves.
        cap = cap - max(1, cap // 50)
    thinned = []
    for score, level in zip(scores, levels, strict=True):
        if len(level) > cap:
            wanted = np.quantile(score, np.arange(1, cap + 1) / (cap + 1), method="inverted_cdf")
            level = np.unique(level[np.minimum(np.searchsorted(level, wanted), len(level) - 1)])
        thinned.append(level)
    return thinned
