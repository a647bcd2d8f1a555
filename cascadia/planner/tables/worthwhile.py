"""Shapes of a stage that are worth tables of their own for each routing.

Many are not: a 70B model on four GPUs as TP2 PP2 carries less than as TP4 and takes longer under any load. With all
requests sent to a stage each shape has a table once; a shape a is left out from then on if some b of its pool is better
wherever a could stand. Copies of b on no more GPUs than a's one replica then carry `MORE` times as much, and at each
level of a its copies, each with its part of a's requests, are no slower. Where GPUs come in odd parts, b must besides
not be wider than a, which fits into smaller gaps.
"""

from collections.abc import Mapping

import numpy as np

from cascadia.domain.cluster import Cluster
from cascadia.planner.tables.packing import packs_perfectly
from cascadia.planner.tables.shapes import Shape
from cascadia.planner.tables.tables import StageTable

MORE = 1.05
"""So much more must be carried, since a routing's requests are longer or shorter than all are."""


def worth_having(table: StageTable, cluster: Cluster) -> tuple[Shape, ...]:
    """The shapes of `table` that no other beats, in their order."""
    gaps = {pool.name: not packs_perfectly(pool) for pool in cluster.pools}
    every = range(len(table.shapes))
    return tuple(
        table.shapes[a] for a in every if not any(_beats(table, b, a, gaps) for b in every if b != a)
    )


def _beats(table: StageTable, b: int, a: int, gaps: Mapping[str, bool]) -> bool:
    mine, other = table.shapes[a], table.shapes[b]
    copies = mine.gpus // other.gpus
    if other.pool != mine.pool or copies == 0 or (gaps[mine.pool] and other.tp > mine.tp):
        return False
    if table.saturated[b] * MORE > table.saturated[a] * copies:
        return False
    at = np.searchsorted(table.levels, table.levels * copies, side="right") - 1
    return bool((table.latency_s[b][at] <= table.latency_s[a]).all())
