"""All routings on one lattice of levels, where those that hardly differ are neighbours.

A routing answers at stage j those prompts whose score reaches t_j and of whom the question alone promises at least u_j.
A stage that is not deployed has t_j = 101, the last deployed one t_j = 0: so every routing of every subset of stages is
a vector of levels, one coordinate a gate (two where the table foresees), and a step up in one of them passes on a few
prompts more. Nodes are such vectors at quantiles of what was observed.

Mixtures of two routings (`mixtures.py`) lie on a line between them. For their bounds, a chord with nodes at even shares
replaces each step from node to node where levels are few; where they are many, the next routing is as good.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, SKIPS_NONE, Ints, Routings

Singles = NDArray[np.float32]

NODES = 700
"""About so many, however many coordinates they have..."""
NODES_WITH_SKIPS = 2_000
"""...and so many where stages may be skipped."""
CHORDS = 400
"""Where steps are more than this, routings a step apart are so near that their mixtures are worth nothing."""
PARTS = 8
"""A chord has nodes at so many even parts of the share."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """`levels` of each coordinate ascend, from who answers all to who answers none; first those of the thresholds.

    `nodes` are those of the grid. Where there are `chords` (c, 2), those within them come after, chord by chord, from
    one end to the other. Nodes of the grid are `joined` where they are a step apart, or by chords alone.
    """

    levels: tuple[Floats, ...]
    gates: int
    nodes: Routings
    chords: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    joined: bool = True

    @staticmethod
    def of(table: QualityTable) -> "Lattice":
        gates = len(table.stages) - 1
        seen = [(score, ACCEPTS_ALL) for score in table.score[:gates]]
        if table.foreseen is not None:
            seen += [(foreseen, SKIPS_NONE) for foreseen in table.foreseen[:gates]]
        most = NODES if table.foreseen is None else NODES_WITH_SKIPS
        # A whole root must not lose a level to its last digit.
        each = max(2, int(most ** (1 / max(len(seen), 1)) + 1e-9))
        levels = tuple(_levels(values, lowest, each) for values, lowest in seen)
        nodes = (
            np.stack([axis.ravel() for axis in np.meshgrid(*levels, indexing="ij")], axis=1) if seen else None
        )
        at = np.zeros((1, 0)) if nodes is None else nodes
        return Lattice(levels, gates, _routings(at, gates, foresees=table.foreseen is not None))

    @property
    def coarse(self) -> bool:
        """Tells whether steps are few: elsewhere routings a step apart are too near for mixtures to be worth much."""
        return len(self.levels) == self.gates and 0 < len(_steps(self.shape)) <= CHORDS

    def chorded(self) -> "Lattice":
        """Lattice with chords in place of steps, where it is `coarse`."""
        return replace(self, chords=_steps(self.shape), joined=False) if self.coarse else self

    def with_coins(self) -> "Lattice":
        """Lattice with a chord beside its steps for every two models alone, where it is `coarse`: mixtures without a
        gate.
        """
        return replace(self, chords=_between_models(self.shape)) if self.coarse else self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(level) for level in self.levels)

    def mixed(self, means: Singles) -> Singles:
        """`means` (nodes of the grid, draws) with those of the chords' nodes after them."""
        share = (np.arange(1, PARTS, dtype=np.float32) / PARTS)[:, None]
        inner = [(1 - share) * means[a] + share * means[b] for a, b in self.chords]
        return np.concatenate([means, *inner])

    def on_chord(self, chord: Ints, share: Floats) -> tuple[Ints, Ints]:
        """The nodes next to a mixture with a `share` (0-1, exclusive) of the far end, on each of several chords."""
        first = len(self.nodes) + chord * (PARTS - 1)
        near, far = np.floor(share * PARTS).astype(np.int64), np.ceil(share * PARTS).astype(np.int64)
        return (
            np.where(near < 1, self.chords[chord, 0], first + near - 1),
            np.where(far >= PARTS, self.chords[chord, 1], first + far - 1),
        )

    def around(self, routings: Routings) -> tuple[Ints, Ints]:
        """Nodes around each routing (k): the nearest node that passes on no less, and the nearest that passes
        on no more.
        """
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
        """Most, for each node (v), of `values` (v) among those a step away, in one coordinate or along a chord;
        -inf where none is.
        """
        found = self._along(values)
        if self.joined:
            grid = found[: len(self.nodes)]
            np.maximum(grid, self._stepped(values[: len(self.nodes)]), out=grid)
        return found

    def _stepped(self, values: Floats) -> Floats:
        found = np.full(self.shape, -np.inf)
        grid = values.reshape(self.shape)
        for axis in range(grid.ndim):
            lower = tuple(slice(0, -1) if a == axis else slice(None) for a in range(grid.ndim))
            upper = tuple(slice(1, None) if a == axis else slice(None) for a in range(grid.ndim))
            np.maximum(found[lower], grid[upper], out=found[lower])
            np.maximum(found[upper], grid[lower], out=found[upper])
        return found.ravel()

    def _along(self, values: Floats) -> Floats:
        near, far = self.chords.T
        along = values[len(self.nodes) :].reshape(len(self.chords), PARTS - 1)
        ends = np.full(len(self.nodes), -np.inf)
        # `maximum.at`: a node of the grid may be the end of several chords.
        np.maximum.at(ends, near, along[:, 0])
        np.maximum.at(ends, far, along[:, -1])
        before = np.concatenate([values[near, None], along[:, :-1]], axis=1)
        after = np.concatenate([along[:, 1:], values[far, None]], axis=1)
        return np.concatenate([ends, np.maximum(before, after).ravel()])


def _steps(shape: tuple[int, ...]) -> Ints:
    """Pairs of nodes of the grid that are a step apart in one coordinate (c, 2)."""
    at = np.arange(int(np.prod(shape))).reshape(shape)
    pairs = [
        np.stack([at.take(range(n - 1), axis).ravel(), at.take(range(1, n), axis).ravel()], axis=1)
        for axis, n in enumerate(shape)
    ]
    return np.concatenate([np.zeros((0, 2), np.int64), *pairs])


def _between_models(shape: tuple[int, ...]) -> Ints:
    """Pairs of nodes that send all to one model each (c, 2)."""
    ends = [[n - 1 if at < s else 0 for at, n in enumerate(shape)] for s in range(len(shape) + 1)]
    alone = [int(np.ravel_multi_index(end, shape)) if shape else 0 for end in ends]
    return np.array(list(combinations(alone, 2)), np.int64).reshape(-1, 2)


def _levels(values: Floats, lowest: float, at_most: int) -> Floats:
    """Levels from the `lowest`, which all reach, to one that none does; between them observed levels at even
    quantiles.
    """
    inner = np.unique(values)[1:]
    room = max(at_most - 2, 0)
    if len(inner) > room:
        wanted = np.quantile(values, np.arange(1, room + 1) / (room + 1), method="inverted_cdf")
        inner = np.unique(wanted[wanted > values.min()])
    return np.concatenate([[lowest], inner[inner > lowest], [ACCEPTS_NONE]])


def _routings(nodes: Floats, gates: int, *, foresees: bool) -> Routings:
    """Nodes as routings of all stages; loads and means, which nobody asks for here, are not worked out."""
    count = len(nodes)
    nothing = np.zeros(count)
    skips = nodes[:, gates:] if foresees else None
    deployed = np.ones((count, gates + 1), dtype=np.bool_)
    return Routings(
        nodes[:, :gates],
        deployed,
        np.zeros((count, gates + 1)),
        mean=nothing,
        lower=nothing,
        skip_below=skips,
    )
