"""A lower confidence bound on each routing's quality that survives choosing among the routings.

Given m prompts drawn independently from the traffic, Q(r) is the quality of routing r on all of that traffic.
Planning picks the cheapest r with lower(r) >= bar among thousands, so the winner's mean is high partly by
luck. For every bar fixed beforehand:

    P(some routing has lower(r) >= bar > Q(r)) <= 1 - confidence   (up to bootstrap error)

1. Draw weights w ~ Dirichlet(1, ..., 1) over the m prompts and one more prompt of quality 0 (Rubin 1981, with
   the worst case added: Gaffke 2005, Learned-Miller and Thomas 2019). For one routing with answers that are
   right or wrong, the quantiles of sum w q are Clopper and Pearson's exact bound; a sample without a single
   wrong answer is no proof of perfection. The same draws for every routing show how their errors move together.
2. Routings are tested in an order: first those beyond doubt (no draw of theirs lies below the bar), then those
   that answer a few prompts more or fewer early than one that has passed, and so on (`walk.py`). The
   first that passes wrongly is then next to one that is good enough, so only those on the edge
   count (fixed sequences and graphs of tests: Angelopoulos et al. 2021; Goeman and Solari 2010).
3. Where none is beyond doubt, all that are contested count: those whose draws lie on both sides of the bar
   (Hansen 2005, Andrews and Soares 2010), but for those that have passed already (Romano and Wolf 2005).
4. Take the highest rank such that at most 1 - confidence of the draws rank lower in any that counts. The bound is
   the order statistic of that rank; from the lowest bar up, each routing rises until it fails.

What counts is taken from a lattice over all routings, not from the frontier, since who survives to the
frontier is luck too. docs/models/quality.md has the assumptions and the measured miss rates.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.lattice import Lattice
from cascadia.planner.routing.routings import Ints, Routings, outcomes
from cascadia.planner.routing.walk import SPENT, SPENT_ON_MIXTURES, Draws, rise
from cascadia.policy.one_thread import on_one_thread
from cascadia_sim.hardware.cores import usable_cores

Singles = NDArray[np.float32]

METHOD = "simultaneous bootstrap with a worst-case prompt, in a fixed order"

DRAWS = 2_000
DRAWS_IN_TAIL = 40
"""At least so many draws lie beyond the confidence level, whatever it is..."""
CONFIDENCE_MAX = 0.998
"""...up to this one."""

GROUPS = 2_000
"""More prompts than this are weighted in groups: their means are as good a sample, at a bounded cost."""

ROWS = 256
"""Routings that a thread multiplies at once."""
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
    weights, order, tail = _drawn(len(table), confidence, seed)
    lattice = Lattice.of(table).with_coins()
    nodes = Draws.of(lattice.mixed(_means(table, lattice.nodes, order, weights)), tail)
    lowest = _lowest(_means(table, routings, order, weights), tail)
    bounds = rise(lattice, nodes, lowest, lattice.around(routings))
    return np.clip(bounds, 0.0, routings.mean), METHOD


def mixture_bounds(table: QualityTable, chord: Ints, share: Floats, confidence: float, seed: int) -> Floats:
    """Lower bounds of mixtures (k): each of a `share` of the far end and the rest of the near end of a `chord` of
    `Lattice.chorded`.

    The quality of a mixture on a prompt is the mean of both routings', weighed by the share, so it is bounded as any
    routing's is, by walks along chords. These spend the part of what may be missed that `lower_bounds` leaves
    (Bonferroni, weighted: Holm 1979), so that there being mixtures costs no routing anything.
    """
    lattice = Lattice.of(table).chorded()
    return _on_chords(table, lattice, _drawn(len(table), confidence, seed), SPENT_ON_MIXTURES, chord, share)


def coin_bounds(table: QualityTable, chord: Ints, share: Floats, confidence: float, seed: int) -> Floats:
    """Lower bounds of mixtures of two models alone (k), on a `chord` of `Lattice.with_coins`: nodes of the walk that
    bounds routings, whose bounds they leave nearly as they are, since there is but one chord for two models.
    """
    lattice = Lattice.of(table).with_coins()
    return _on_chords(table, lattice, _drawn(len(table), confidence, seed), SPENT, chord, share)


def _on_chords(
    table: QualityTable,
    lattice: Lattice,
    drawn: tuple[Singles, Ints, int],
    spent: float,
    chord: Ints,
    share: Floats,
) -> Floats:
    weights, order, tail = drawn
    grid = _means(table, lattice.nodes, order, weights)
    near, far = grid[lattice.chords[chord, 0]], grid[lattice.chords[chord, 1]]
    part = share.astype(np.float32)[:, None]
    lowest = _lowest((1 - part) * near + part * far, tail)
    nodes = Draws.of(lattice.mixed(grid), tail, spent)
    return rise(lattice, nodes, lowest, lattice.on_chord(chord, share))


def _lowest(means: Singles, tail: int) -> Floats:
    """Each row's lowest draws, ascending: (k, tail + 1)."""
    return np.sort(np.partition(means, tail, axis=1)[:, : tail + 1], axis=1).astype(np.float64)


def fixed_bounds(table: QualityTable, routings: Routings, confidence: float, seed: int) -> Floats:
    """Bounds as `lower_bounds` would give (k) had each routing been fixed before the table was seen: none can
    be higher.

    Not valid after choosing; it tells how much of a bound is the table's size, and how much the choice.
    """
    weights, order, tail = _drawn(len(table), confidence, seed)
    means = _means(table, routings, order, weights)
    bounds = np.partition(means, tail, axis=1)[:, tail].astype(np.float64)
    return np.clip(bounds, 0.0, routings.mean)


def _drawn(count: int, confidence: float, seed: int) -> tuple[Singles, Ints, int]:
    """Weights (groups, draws) of the prompts, in which order they are grouped, and how many draws may lie below."""
    miss = 1.0 - confidence
    draws = max(DRAWS, math.ceil(DRAWS_IN_TAIL / miss))
    rng = np.random.default_rng(seed)
    # Neighbours in a table are often alike, and a group of them would count as one prompt.
    order = rng.permutation(count)
    groups = min(count, math.ceil(count / math.ceil(count / GROUPS)))
    # Exponentials over their sum are Dirichlet(1, ..., 1).
    weights = rng.standard_exponential((groups + 1, draws), dtype=np.float32)
    weights /= weights.sum(axis=0)
    # The last is the worst case's weight, whose quality is 0: it adds nothing but is missing from the others.
    return weights[:-1], order, math.floor(miss * draws + 1e-9)


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
        _multiply(value, weights, means[some])
    return means


@on_one_thread
def _multiply(value: Singles, weights: Singles, product: Singles) -> None:
    """Writes `value` (k, groups) times `weights` to `product`, to the same bits on any number of cores: a library's own
    threads part the sums, and round them otherwise."""
    with ThreadPoolExecutor(usable_cores()) as threads:
        parts = [slice(first, first + ROWS) for first in range(0, len(value), ROWS)]
        list(threads.map(lambda part: np.matmul(value[part], weights, out=product[part]), parts))
