"""Points that no other point dominates: exact filters for the frontier of routings.

A point has loads (less is better) and a total quality (more is better). q dominates p if it is no worse in
any of them and better in one; of equal points the first is kept.
"""

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.engine.jitted import jitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ranks = NDArray[np.int32]
Bools = NDArray[np.bool_]

LEAF = 8
"""Points in a leaf of the box tree."""

FEW = 4
"""Different values of a load beside two others, up to which no tree is needed: a cascade's first stage has all or none.
"""


def non_dominated(loads: Floats, total: Ints) -> Ints:
    """Ascending indices of the points that no other dominates; `loads` (n, d), `total` (n)."""
    if len(total) == 0:
        return np.zeros(0, dtype=np.int64)
    # In this order whatever dominates a point comes before it: dominance is then <= in rank and every load.
    order = np.lexsort((*loads.T[::-1], -total))
    varying = [column[order] for column in loads.T if column.min() < column.max()]
    ranks = [np.unique(column, return_inverse=True)[1].astype(np.int32) for column in varying]
    return np.sort(order[_in_order(ranks) if ranks else [0]])


def _in_order(ranks: list[Ranks]) -> Ints:
    """Places of the points than which none before has loads that are all as small, or smaller; `ranks` by load."""
    few, *others = sorted(ranks, key=lambda rank: int(rank.max()))
    if len(others) < 2:
        none = np.zeros(len(few), np.int32)
        return np.flatnonzero(_swept(none, few, others[0] if others else none))
    if len(others) == 2 and few.max() < FEW:
        return np.flatnonzero(_swept(few, *others))
    point = np.column_stack([np.arange(len(few)), *ranks])
    point = np.ascontiguousarray(point[np.argsort(_morton(point), kind="stable")], dtype=np.int32)
    kept: Ints = point[_undominated(point, *_boxes(point)), 0].astype(np.int64)
    return kept


def lightest(loads: Floats, among: Bools) -> Ints:
    """Ascending indices of those `among` the points than which no other of them has less load (n, d)."""
    chosen = np.flatnonzero(among)
    kept: Ints = chosen[non_dominated(loads[chosen], np.zeros(len(chosen), dtype=np.int64))]
    return kept


def _morton(point: Ints) -> NDArray[np.uint64]:
    """Position on the Z-order curve, which keeps points near each other in space near each other in order."""
    dimensions = point.shape[1]
    # Together they must fit a word; coarser coordinates cost order, which is only for speed.
    bits = 63 // dimensions
    key = np.zeros(len(point), dtype=np.uint64)
    scaled = (point * (2**bits - 1) // np.maximum(point.max(axis=0), 1)).astype(np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in scaled.T:
            key = (key << np.uint64(1)) | ((column >> np.uint64(bit)) & np.uint64(1))
    return key


def _boxes(point: Ranks) -> tuple[Ranks, Ranks]:
    """Lowest and highest corners of a binary tree over runs of `LEAF` points (heap order)."""
    count, dimensions = point.shape
    leaves = 1
    while leaves * LEAF < count:
        leaves *= 2
    least = np.full((2 * leaves, dimensions), np.iinfo(np.int32).max, dtype=np.int32)
    most = np.full((2 * leaves, dimensions), -1, dtype=np.int32)
    starts = np.arange(0, count, LEAF)
    least[leaves : leaves + len(starts)] = np.minimum.reduceat(point, starts)
    most[leaves : leaves + len(starts)] = np.maximum.reduceat(point, starts)
    while leaves > 1:
        half = leaves // 2
        least[half:leaves] = np.minimum(least[leaves : 2 * leaves : 2], least[leaves + 1 : 2 * leaves : 2])
        most[half:leaves] = np.maximum(most[leaves : 2 * leaves : 2], most[leaves + 1 : 2 * leaves : 2])
        leaves = half
    return least, most


@jitted(nogil=True)
def _swept(few: Ranks, across: Ranks, load: Ranks) -> Bools:
    """One Fenwick tree over `across` for each value of `few` holds the least `load` so far."""
    count, size = few.size, across.max() + 2
    kept = np.ones(count, dtype=np.bool_)
    least = np.full((few.max() + 1, size), count, dtype=np.int32)
    for p in range(count):
        for value in range(few[p] + 1):
            at = across[p] + 1
            while at > 0 and kept[p]:
                kept[p] = least[value, at] > load[p]
                at -= at & -at
        at = across[p] + 1
        while at < size and kept[p]:
            least[few[p], at] = min(least[few[p], at], load[p])
            at += at & -at
    return kept


@jitted(nogil=True)
def _undominated(point: Ranks, least: Ranks, most: Ranks) -> Bools:
    count, dimensions = point.shape
    leaves = least.shape[0] // 2
    kept = np.ones(count, dtype=np.bool_)
    # Each level of the tree leaves one box on it at most, and no tree of int32 ranks has more than 32 levels.
    stack = np.empty(128, dtype=np.int64)
    for p in range(count):
        stack[0] = 1
        size = 1
        while size > 0:
            size -= 1
            node = stack[size]
            inside, below = True, True
            for d in range(dimensions):
                if least[node, d] > point[p, d]:
                    inside = False
                    break
                # Ranks are distinct, so a box wholly at or below p without p itself has a dominating point.
                if most[node, d] > point[p, d] or (d == 0 and most[node, 0] == point[p, 0]):
                    below = False
            if not inside:
                continue
            if below:
                kept[p] = False
                break
            if node < leaves:
                stack[size] = 2 * node + 1
                stack[size + 1] = 2 * node
                size += 2
                continue
            first = (node - leaves) * LEAF
            for q in range(first, min(first + LEAF, count)):
                dominated = point[q, 0] < point[p, 0]
                for d in range(1, dimensions):
                    if point[q, d] > point[p, d]:
                        dominated = False
                        break
                if dominated:
                    kept[p] = False
                    size = 0
                    break
    return kept


@jitted(nogil=True)
def best_of_last_gates(total: Ints, last: Ints, prompts: int) -> Bools:
    """Marks, within each block (b, :, :), the vectors that no other beats by its last two gates alone.

    `total` and `last` (B, T, U): quality and prompts reaching the last stage, for U thresholds of the last
    gate and T of the one before. The load on the stage between grows with T, `last` with both, so a vector is
    beaten only by earlier ones: a Fenwick tree over `last` holds the best total so far.
    """
    blocks, rows, columns = total.shape
    kept = np.zeros(total.shape, dtype=np.bool_)
    best = np.empty(prompts + 2, dtype=np.int64)
    for b in range(blocks):
        best[:] = -1
        for i in range(rows):
            for j in range(columns):
                here = total[b, i, j]
                beaten = False
                at = last[b, i, j] + 1
                while at > 0:
                    if best[at] >= here:
                        beaten = True
                        break
                    at -= at & -at
                if beaten:
                    continue
                kept[b, i, j] = True
                at = last[b, i, j] + 1
                while at < prompts + 2:
                    if best[at] < here:
                        best[at] = here
                    at += at & -at
    return kept
