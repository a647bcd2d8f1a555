"""All routings on one lattice of levels, where those that hardly differ are neighbours.

A routing answers at stage j those prompts whose score reaches t_j and of whom the question alone promises at least u_j.
A stage that is not deployed has t_j = 101, the last deployed one t_j = 0: so every routing of every subset of stages is
a vector of levels, one coordinate a gate (two where the table foresees), and a step up in one of them passes on a few
prompts more. Nodes are such vectors at quantiles of what was observed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, SKIPS_NONE, Ints, Routings

NODES = 700
"""About so many, however many coordinates they have..."""
NODES_WITH_SKIPS = 2_000
"""...and so many where stages may be skipped."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """`levels` of each coordinate ascend, from who answers all to who answers none; first those of the thresholds."""

    levels: tuple[Floats, ...]
    gates: int
    nodes: Routings

    @staticmethod
    def of(table: QualityTable) -> "Lattice":
        gates = len(table.stages) - 1
        seen = [(score, ACCEPTS_ALL) for score in table.score[:gates]]
        if table.foreseen is not None:
            seen += [(foreseen, SKIPS_NONE) for foreseen in table.foreseen[:gates]]
        most = NODES if table.foreseen is None else NODES_WITH_SKIPS
        each = max(2, int(most ** (1 / max(len(seen), 1)) + 1e-9))
        levels = tuple(_levels(values, lowest, each) for values, lowest in seen)
        nodes = (
            np.stack([axis.ravel() for axis in np.meshgrid(*levels, indexing="ij")], axis=1) if seen else None
        )
        at = np.zeros((1, 0)) if nodes is None else nodes
        return Lattice(levels, gates, _routings(at, gates, foresees=table.foreseen is not None))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(level) for level in self.levels)

    def around(self, routings: Routings) -> tuple[Ints, Ints]:
        """For each routing (k) the nearest node that passes on no less, and the nearest that passes on no more."""
        if not self.levels:
            only = np.zeros(len(routings), dtype=np.int64)
            return only, only
        columns = [routings.thresholds[:, j] for j in range(self.gates)]
        if len(self.levels) > self.gates:
            skips = routings.skip_below
            none = np.zeros(len(routings))
            columns += [none if skips is None else skips[:, j] for j in range(self.gates)]
        pairs = list(zip(self.levels, columns, strict=True))
        above = [np.minimum(np.searchsorted(level, column), len(level) - 1) for level, column in pairs]
        below = [np.maximum(np.searchsorted(level, column, side="right") - 1, 0) for level, column in pairs]
        return self._positions(above), self._positions(below)

    def _positions(self, at: list[NDArray[np.int64]]) -> Ints:
        return np.asarray(np.ravel_multi_index(tuple(at), self.shape), dtype=np.int64)

    def beside(self, values: Floats) -> Floats:
        """For each node (v), the most of `values` (v) among those a step away in one coordinate; -inf where none is."""
        found = np.full(self.shape, -np.inf)
        grid = values.reshape(self.shape)
        for axis in range(grid.ndim):
            lower = tuple(slice(0, -1) if a == axis else slice(None) for a in range(grid.ndim))
            upper = tuple(slice(1, None) if a == axis else slice(None) for a in range(grid.ndim))
            np.maximum(found[lower], grid[upper], out=found[lower])
            np.maximum(found[upper], grid[lower], out=found[upper])
        return found.ravel()


def _levels(values: Floats, lowest: float, at_most: int) -> Floats:
    """From the `lowest`, which all reach, to one that none does; between them observed levels at even quantiles."""
    inner = np.unique(values)[1:]
    room = max(at_most - 2, 0)
    if len(inner) > room:
        wanted = np.quantile(values, np.arange(1, room + 1) / (room + 1), method="inverted_cdf")
        inner = np.unique(wanted[wanted > values.min()])
    return np.concatenate([[lowest], inner[inner > lowest], [ACCEPTS_NONE]])


def _routings(nodes: Floats, gates: int, *, foresees: bool) -> Routings:
    """As routings of all stages; loads and means, which nobody asks for here, are not worked out."""
    count = len(nodes)
    nothing = np.zeros(count)
    skips = nodes[:, gates:] if foresees else None
    deployed = np.ones((count, gates + 1), dtype=np.bool_)
    return Routings(
        nodes[:, :gates], deployed, np.zeros((count, gates + 1)), nothing, nothing, skip_below=skips
    )
