"""Placement of each rank of each replica on the GPUs of a node.

A replica of tp * pp GPUs runs as equal ranks, one engine process each. A rank holds whole tensor-parallel
groups (one or more pipeline stages) or, where a group is larger than a node, an equal part of one; engines
want all ranks of a replica alike (`--nnodes` divides the world size). Ranks are placed by first-fit
decreasing, which packs sizes that divide one another perfectly (Coffman, Garey and Johnson 1987). So: take
the largest ranks, and where those do not fit, cut one demand's smaller, or else the largest ones again and
again; at the end each tensor-parallel group is a rank of its own, which fits wherever the planner's own
packing does.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput


class Demand(NamedTuple):
    """`replicas` of one shape."""

    tp: int
    pp: int
    replicas: int


class Slot(NamedTuple):
    """GPUs of one node of the pool, both counted from 0."""

    node: int
    gpus: tuple[int, ...]


Replica = tuple[Slot, ...]
"""One slot per rank."""


def place(pool: Pool, demands: Sequence[Demand]) -> tuple[tuple[Replica, ...], ...]:
    """Places the replicas of each demand. All replicas of a demand have the same number of ranks.

    Raises `BadInput` where the pool cannot hold them.
    """
    choices = [_rank_sizes(d, pool.gpus_per_node) for d in demands]
    sizes = [options[0] for options in choices]
    placed = _first_fit_decreasing(pool, demands, sizes)
    while placed is None:
        cuts = _cuts(demands, choices, sizes)
        if not cuts:
            raise BadInput(
                f"plan: pool {pool.name}",
                f"its {pool.nodes} nodes of {pool.gpus_per_node} GPUs cannot hold the replicas of the plan",
                "plan again for this cluster",
            )
        sizes = max(cuts, key=lambda cut: cut.was).sizes
        for cut in sorted(cuts, key=lambda cut: cut.more_ranks):
            placed = placed or _first_fit_decreasing(pool, demands, cut.sizes)
    return placed


class _Cut(NamedTuple):
    """One demand's ranks, of `was` GPUs, cut to their next smaller size. `sizes` are of all demands."""

    was: int
    more_ranks: int
    sizes: list[int]


def _cuts(demands: Sequence[Demand], choices: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[_Cut]:
    found = []
    for i, (demand, options, size) in enumerate(zip(demands, choices, sizes, strict=True)):
        for smaller in options[options.index(size) + 1 :][:1]:
            gpus = demand.tp * demand.pp
            more = demand.replicas * (gpus // smaller - gpus // size)
            found.append(_Cut(size, more, [*sizes[:i], smaller, *sizes[i + 1 :]]))
    return found


def _rank_sizes(demand: Demand, gpus_per_node: int) -> tuple[int, ...]:
    """GPUs of a rank, largest first."""
    tp, pp, _ = demand
    if tp <= gpus_per_node:
        whole = (k * tp for k in range(pp, 0, -1) if pp % k == 0)
        return tuple(size for size in whole if size <= gpus_per_node)
    return tuple(size for size in range(gpus_per_node, 0, -1) if tp % size == 0)


def _first_fit_decreasing(
    pool: Pool, demands: Sequence[Demand], sizes: Sequence[int]
) -> tuple[tuple[Replica, ...], ...] | None:
    free = [list(range(pool.gpus_per_node)) for _ in range(pool.nodes)]
    placed: list[tuple[Replica, ...]] = [()] * len(demands)
    for i in sorted(range(len(demands)), key=lambda i: -sizes[i]):
        demand, size = demands[i], sizes[i]
        ranks = demand.tp * demand.pp // size
        slots = [slot for _ in range(demand.replicas * ranks) if (slot := _take(free, size))]
        if len(slots) < demand.replicas * ranks:
            return None
        placed[i] = tuple(tuple(slots[r * ranks : (r + 1) * ranks]) for r in range(demand.replicas))
    return tuple(placed)


def _take(free: list[list[int]], size: int) -> Slot | None:
    for node, gpus in enumerate(free):
        if len(gpus) >= size:
            slot = Slot(node, tuple(gpus[:size]))
            del gpus[:size]
            return slot
    return None
