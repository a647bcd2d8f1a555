"""Mixtures of two routings: a share of the requests goes by one, the rest by the other, in turn.

Load and quality of a mixture lie on the line between its two routings', so the frontier becomes its convex hull. That
matters where a judge has few levels, and routings are far apart: a bar between two of them need not be paid for as the
next one. As in tests of hypotheses, where a bar is hit exactly only by chance (randomised tests; on ROC curves, Provost
and Fawcett 2001). What is mixed are routings a step apart on one gate (`lattice.py`): these span the whole hull where
scores order answers well, that is where the judge's ROC curves are concave. Bounds: `guarantee.mixture_bounds`.

Where levels are many the next routing is as good, but for two models without a gate (`coins`): what these save is the
judge, which may cost more than it is worth.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np

from cascadia.domain.plan import ASKS_NONE
from cascadia.domain.quality import Floats, QualityTable
from cascadia.planner.routing.guarantee import coin_bounds, mixture_bounds
from cascadia.planner.routing.lattice import Lattice
from cascadia.planner.routing.routings import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    SKIPS_NONE,
    Bools,
    Ints,
    Mixed,
    Routings,
    decided,
    outcomes,
)

STEPS, COIN_STEPS = 40, 200
"""Shares are tried in steps of 2.5 %; between two models alone, which are far apart, of 0.5 %."""
MOST_TRIED = 1_500
Z = 1.6449


def bounded(
    table: QualityTable, least: float, confidence: float, seed: int, *, spread: bool = False
) -> tuple[Routings, Ints] | None:
    """Mixtures with bounds around `least`, or `spread` over all beyond it, and the chord of each; None where there are
    none."""
    lattice = Lattice.of(table)
    if not lattice.coarse:
        return None
    ends = _ends(table, lattice)
    kinds = ((lattice.chorded(), mixture_bounds, STEPS), (lattice.with_coins(), coin_bounds, COIN_STEPS))
    found: list[tuple[Ints, Ints, Floats, Floats]] = []
    first = 0
    for chords, bounds, steps in kinds:
        chord, share = _tried(table, chords, ends, least, steps, spread=spread)
        if len(chord):
            lower = bounds(table, chord, share, confidence, seed)
            found.append((first + chord, chords.chords[chord], share, lower))
        first += len(chords.chords)
    if not found:
        return None
    chord, pair, share, lower = (np.concatenate(part) for part in zip(*found, strict=True))
    return _mixed(ends, pair[:, 0], pair[:, 1], share, lower), chord


def coins(routings: Routings) -> tuple[Routings, Ints] | None:
    """Mixtures of any two of the models that `routings` have alone, and the pair of each; None where there are none.

    Their bounds lie on the line between the models', which hold at once: the simplest there is, without a walk.
    """
    alone = np.flatnonzero(routings.deployed.sum(axis=1) == 1)
    _, first = np.unique(routings.deployed[alone].argmax(axis=1), return_index=True)
    ends = routings.take(alone[first])
    pairs = np.array(list(combinations(range(len(ends)), 2)), np.int64).reshape(-1, 2)
    if not len(pairs):
        return None
    share = np.tile(np.arange(1, COIN_STEPS) / COIN_STEPS, len(pairs))
    chord = np.repeat(np.arange(len(pairs)), COIN_STEPS - 1)
    near, far = pairs[chord].T
    lower = (1 - share) * ends.lower[near] + share * ends.lower[far]
    return _mixed(ends, near, far, share, lower), chord


def _ends(table: QualityTable, lattice: Lattice) -> Routings:
    """The lattice's nodes as routings with loads and means."""
    thresholds = lattice.nodes.thresholds
    deployed = _deployed(thresholds)
    reached = np.stack(
        [
            decided(table, on, levels, None).reached.mean(axis=1)
            for on, levels in zip(deployed, thresholds, strict=True)
        ]
    )
    used = deployed & (reached > 0)
    used[np.arange(len(used)), deployed.shape[1] - 1 - deployed[:, ::-1].argmax(axis=1)] = True
    mean = outcomes(table, lattice.nodes).mean(axis=1, dtype=np.float64)
    return Routings(thresholds, used, reached, mean=mean, lower=np.zeros(len(mean)))


def _deployed(thresholds: Floats) -> Bools:
    """(k, S): stages that accept any, up to the first that accepts all."""
    accepts = np.column_stack([thresholds <= 100, np.ones(len(thresholds), np.bool_)])
    ends = np.column_stack([thresholds <= ACCEPTS_ALL, np.ones(len(thresholds), np.bool_)])
    before = np.arange(accepts.shape[1])[None, :] <= ends.argmax(axis=1)[:, None]
    return np.asarray(accepts & before)


def _tried(
    table: QualityTable, lattice: Lattice, ends: Routings, least: float, steps: int, *, spread: bool
) -> tuple[Ints, Floats]:
    """Chords and shares of their far ends with means from `least` up, the nearest to what a bound leaves of it; or
    `spread` evenly over them."""
    share = np.arange(1, steps) / steps
    near, far = lattice.chords.T
    mean = ends.mean[near, None] * (1 - share) + ends.mean[far, None] * share
    error = table.quality.std() / np.sqrt(len(table))
    beyond = np.abs(mean - (least + Z * error))
    beyond[mean < least] = np.inf
    order = np.argsort(beyond, axis=None, kind="stable")[: np.isfinite(beyond).sum()]
    if spread and len(order) > MOST_TRIED:
        order = order[np.linspace(0, len(order) - 1, MOST_TRIED).astype(np.int64)]
    chord, at = np.unravel_index(order[:MOST_TRIED], mean.shape)
    return np.asarray(chord, dtype=np.int64), share[at]


def _mixed(ends: Routings, near: Ints, far: Ints, share: Floats, lower: Floats) -> Routings:
    """Mixture of each pair; most requests go by its own thresholds, the lesser share by the other's."""
    swapped = share > 0.5
    own, other = np.where(swapped, far, near), np.where(swapped, near, far)
    part = np.where(swapped, 1 - share, share)
    deployed = ends.deployed[own] | ends.deployed[other]
    rest, mixed = _written(ends, own, deployed), _written(ends, other, deployed)
    mean = (1 - part) * ends.mean[own] + part * ends.mean[other]
    reached = (1 - part)[:, None] * ends.reached[own] + part[:, None] * ends.reached[other]
    return replace(
        rest,
        reached=reached,
        mean=mean,
        lower=np.clip(lower, 0.0, mean),
        mixed=Mixed(part, mixed, ends.reached[own]),
    )


def _written(ends: Routings, k: Ints, deployed: Bools) -> Routings:
    """Routings `k` for all stages of `deployed`: those that they do not use are not asked."""
    gates = deployed.shape[1] - 1
    last = deployed.shape[1] - 1 - deployed[:, ::-1].argmax(axis=1)
    idle = ~ends.deployed[k][:, :gates]
    at_end = np.arange(gates)[None, :] == last[:, None]
    thresholds = np.where(idle, ACCEPTS_NONE, ends.thresholds[k])
    skips = np.where(idle & deployed[:, :gates], ASKS_NONE, SKIPS_NONE)
    return Routings(
        np.where(at_end, ACCEPTS_ALL, thresholds),
        deployed,
        ends.reached[k],
        mean=ends.mean[k],
        lower=ends.lower[k],
        skip_below=np.where(at_end, SKIPS_NONE, skips),
    )
