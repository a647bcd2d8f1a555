"""Walk that finds how far each routing rises: bars from the lowest up, and at each the routings that may pass,
one after the other.

At a bar b, a node of the lattice is beyond doubt if its every draw is at least b. From those, tests go from neighbour
to neighbour: a node is tested once one beside it has passed. Let N be the nodes that truly miss b and have one beside
them that does not. As long as nothing was passed wrongly, the next to be passed wrongly is in N; so it is enough that
the draws of all of N together lie below their bounds in no more than so many draws (Goeman and Solari 2010, theorem 1,
with a graph as Angelopoulos et al. 2021, section 5, have fixed sequences and graphs). N is read off the means.

Where no node is beyond doubt there is nowhere to begin, and all contested nodes are tested at once, step-down (Romano
and Wolf 2005): those that pass no longer count, which raises the rank for the others, until no more pass.
"""

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.quality import Floats
from cascadia.planner.routing.lattice import Lattice
from cascadia.planner.routing.routings import Bools, Ints

Singles = NDArray[np.float32]

SPACING = 0.5
BARS = (24, 96)
"""Bars lie so many standard errors apart, but are no fewer and no more than this; between two, what counts at either
counts."""

SPENT = 0.8
"""Where there is a choice, so much of what may be missed is spent on it. The rest is for what the resampling does not
see: that it is right to first order only, and that a node is wrongly beyond doubt."""

SPENT_ON_MIXTURES = 0.2
"""Where there are mixtures too (`guarantee.mixture_bounds`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Draws of v nodes: `mean` (v) and the `least` and `most` of their draws; `lowest` (v, tail + 1),
    ascending, and which draws the first `tail` of these are.
    """

    mean: Floats
    spread: float
    least: Floats
    _: KW_ONLY
    most: Floats
    lowest: Floats
    which: Ints
    draws: int
    share: float
    """So much of what may be missed is spent on what counts together."""

    @staticmethod
    def of(means: Singles, tail: int, share: float = SPENT) -> "Draws":
        """`means` (nodes, draws)."""
        lowest = np.argpartition(means, tail, axis=1)[:, : tail + 1]
        values = np.take_along_axis(means, lowest, axis=1)
        by_value = np.argsort(values, axis=1)
        return Draws(
            means.mean(axis=1, dtype=np.float64),
            float(np.median(means.std(axis=1))),
            means.min(axis=1).astype(np.float64),
            most=means.max(axis=1).astype(np.float64),
            lowest=np.take_along_axis(values, by_value, axis=1).astype(np.float64),
            which=np.take_along_axis(lowest, by_value, axis=1)[:, :tail],
            draws=means.shape[1],
            share=share,
        )

    @property
    def spent(self) -> int:
        """Number of draws that may lie below their bounds."""
        tail = self.which.shape[1]
        return tail if len(self.mean) == 1 else int(self.share * tail)

    def rank(self, counted: Bools) -> int:
        """The highest rank such that no more than `spent` draws rank lower in any of those `counted`."""
        worst = np.full(self.draws, self.spent, dtype=np.int64)
        which = self.which[counted, : self.spent]
        # `minimum.at`: one draw may be among the lowest of several nodes, and its least rank counts.
        np.minimum.at(worst, which.ravel(), np.tile(np.arange(self.spent), len(which)))
        return int(np.partition(worst, self.spent)[self.spent])


def rise(lattice: Lattice, nodes: Draws, lowest: Floats, around: tuple[Ints, Ints]) -> Floats:
    """The highest bar that each of k routings passes with all lower ones (k).

    `lowest` (k, tail + 1) are their lowest draws, ascending; `around`: the nodes next to each.
    """
    above, below = around
    lower = np.full(len(lowest), -np.inf)
    rising = np.ones(len(lowest), dtype=np.bool_)
    for low, high in pairwise(_bars(nodes).tolist()):
        rank, reached = _passed(lattice, nodes, low, high)
        bound = np.minimum(lowest[:, rank], np.maximum(reached[above], reached[below]))
        lower = np.where(rising, np.maximum(lower, np.minimum(bound, high)), lower)
        rising &= bound >= high
        if not rising.any():
            break
    return lower


def _bars(nodes: Draws) -> Floats:
    low, high = float(nodes.least.min()), float(nodes.most.max())
    wanted = (high - low) / max(SPACING * nodes.spread, 1e-9)
    return np.linspace(low, high, int(np.clip(wanted, *BARS)) + 1)


def _passed(lattice: Lattice, nodes: Draws, low: float, high: float) -> tuple[int, Floats]:
    """Result for bars between `low` and `high`: the rank that bounds there, and up to which bar each node has
    passed (v).
    """
    certain = nodes.least >= high
    if not certain.any():
        return _stepped_down(nodes, low, high), np.full(len(nodes.mean), np.inf)
    edge = (nodes.mean < high) & (lattice.beside(nodes.mean) >= low)
    rank = nodes.rank(edge) if edge.any() else nodes.spent
    own = nodes.lowest[:, rank]
    reached = np.where(certain, np.inf, -np.inf)
    while True:
        after = np.maximum(reached, np.minimum(own, lattice.beside(reached)))
        if np.array_equal(after, reached):
            return rank, reached
        reached = after


def _stepped_down(nodes: Draws, low: float, high: float) -> int:
    counted = (nodes.least <= high) & (nodes.most >= low)
    if not counted.any():
        return nodes.spent
    rank = nodes.rank(counted)
    while (counted := counted & (nodes.lowest[:, rank] < high)).any() and (
        after := nodes.rank(counted)
    ) > rank:
        rank = after
    return rank
