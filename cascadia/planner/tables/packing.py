"""Condition under which tensor-parallel groups fit on the nodes of a pool.

A tensor-parallel group stays within a node; a pipeline is `pp` such groups, which may lie on several nodes. With
group sizes of which each divides the next (1, 2, 4, 8), first-fit-decreasing packs perfectly (Coffman, Garey and
Johnson 1987), so fitting is exactly, for every size t:

    sum over groups of size >= t of (size / t)  <=  nodes * floor(gpus_per_node / t)

A group that itself spans nodes (size above gpus_per_node) takes whole nodes and counts as that many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cascadia.domain.cluster import Pool
from cascadia.planner.tables.shapes import Shape


class PackingRow(NamedTuple):
    """sum of weight[shape] * count[shape] <= limit."""

    weights: tuple[int, ...]
    limit: int


def packing_rows(pool: Pool, shapes: Iterable[Shape]) -> tuple[PackingRow, ...]:
    """The constraints on the counts of `shapes`; shapes of other pools weigh 0."""
    shapes = tuple(shapes)
    sizes = sorted({1} | {min(s.tp, pool.gpus_per_node) for s in shapes if s.pool == pool.name})
    rows = []
    for size in sizes:
        weights = tuple(_units(shape, size, pool) for shape in shapes)
        rows.append(PackingRow(weights, pool.nodes * (pool.gpus_per_node // size)))
    return tuple(rows)


def _units(shape: Shape, size: int, pool: Pool) -> int:
    if shape.pool != pool.name or shape.tp < size:
        return 0
    # A whole node is no more than it holds of this size, whatever is left over beside.
    per_group = min(-(-min(shape.tp, pool.gpus_per_node) // size), pool.gpus_per_node // size)
    nodes_per_group = max(1, -(-shape.tp // pool.gpus_per_node))
    return shape.pp * per_group * nodes_per_group


def packs_perfectly(pool: Pool) -> bool:
    """Do groups of 1, 2, 4, ... GPUs up to a whole node leave no GPU unused? Then only their sum matters."""
    return pool.gpus_per_node & (pool.gpus_per_node - 1) == 0


def nodes_needed(pool: Pool, counts: Iterable[tuple[Shape, int]]) -> int:
    """Fewest whole nodes of `pool` that hold so many replicas of each shape."""
    counts = tuple(counts)
    rows = packing_rows(replace(pool, nodes=1), (shape for shape, _ in counts))
    return max(
        (
            -(-sum(w * count for w, (_, count) in zip(row.weights, counts, strict=True)) // row.limit)
            for row in rows
        ),
        default=0,
    )


def units_needed(pool: Pool, counts: Iterable[tuple[Shape, int]]) -> int:
    """Least that must be rented of `pool`: whole nodes, or the GPUs themselves."""
    counts = tuple(counts)
    if pool.rent == "gpu":
        return sum(shape.gpus * count for shape, count in counts if shape.pool == pool.name)
    return nodes_needed(pool, counts)


def paid_usd_per_hour(counts: Sequence[tuple[Shape, int]]) -> float:
    """Price of so many replicas of each shape: of the nodes that hold them, where these are paid for whole, and of
    their GPUs elsewhere.
    """
    usd = sum([shape.usd_per_hour * count for shape, count in counts if shape.by_node is None])
    whole = {shape.pool: shape.by_node for shape, _ in counts if shape.by_node is not None}
    return usd + sum([nodes_needed(pool, counts) * pool.usd_per_node_hour for pool in whole.values()])


def fits(pool: Pool, counts: Iterable[tuple[Shape, int]]) -> bool:
    own = [(shape, count) for shape, count in counts if shape.pool == pool.name]
    if sum(_units(shape, 1, pool) * count for shape, count in own) > pool.gpus:
        return False
    sizes = {min(shape.tp, pool.gpus_per_node) for shape, _ in own}
    if packs_perfectly(pool) and not any(size & (size - 1) for size in sizes):
        # A search asks this of all that it thinks of. Here the rows of larger sizes are parts of the sum just made.
        return True
    return all(
        sum(_units(shape, size, pool) * count for shape, count in own)
        <= pool.nodes * (pool.gpus_per_node // size)
        for size in sizes
    )
