"""Shortlist of the routings that are worth combining options for.

For the goal `latency`: the best by J of the bi-level loop, first of all among the lightest: those that reach the bar
and send no stage more than another that reaches it. J knows the largest stage's quantile, which says little of a
bound on the end-to-end one, so under a bound (goals `cost` and `quality`) routings are taken from all over: those
that need the least, and, for `quality`, from every band of it; a quick composition then tells which keep the bound.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.refinement.state import Effort, Refinement, combine
from cascadia.planner.refinement.state import composer as composer_of
from cascadia.planner.routing.dominance import lightest
from cascadia.planner.search.bilevel import BilevelResult, iterate_by_score
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.elsewhere import about_usd_per_hour
from cascadia.planner.search.reference_tables import References, judge_tokens, stage_tokens

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

APART = 0.01
"""Routings that differ by no more than this part of the requests at every stage count as one."""
QUICK = Effort(combinations=500, window_requests=1200)
CHEAPEST = 20
BANDS = 12
PER_BAND = 2
CLOSER = 16
"""Routings looked at: the cheapest for `cost`; per band of quality, then around the best, for `quality`."""


def shortlist(state: Refinement, loop: BilevelResult, most: int) -> list[int]:
    """Shortlist of at most about `most` routings, those of the asked quality only."""
    good = allowed(state.search)
    goal = state.search.problem.objective.goal
    if goal == "latency":
        return [k for k in by_score(state.search, loop, most) if good[k]]
    composer = composer_of(state.search, QUICK.window_requests)
    need = usd_needed(loop.references)
    candidates = [k for k in by_score(state.search, loop, most) if good[k]]
    if goal == "cost":
        cheapest = [k for k in np.argsort(need, kind="stable").tolist() if good[k]]
        found = _ranked(
            state, composer, [*candidates, *state.search.routings.first_apart(cheapest, CHEAPEST, APART)]
        )
    else:
        found = _ranked(state, composer, [*candidates, *_bands(state.search, need, 0.0, 100.0, BANDS)])
        if found:
            best = float(state.search.routings.lower[found[0]])
            closer = _bands(state.search, need, best - 0.2, best + 2.0, CLOSER // PER_BAND)
            found = _ranked(state, composer, [*found[:most], *closer])
    return found[:most]


def by_score(search: Search, loop: BilevelResult, most: int) -> list[int]:
    """Routings by J, best first, each apart from those before it; the best of each set of stages comes along.

    Under a bar the lightest that reach it go first: what quality a heavier one has beyond the bar counts for nothing.
    """
    routings = search.routings
    chosen: list[int] = []
    sets: set[bytes] = set()
    ordered = list(iterate_by_score(loop, search.problem.objective, routings))
    if first := set(light(search)):
        ordered = [*(k for k in ordered if k in first), *ordered]
    for k in ordered:
        deployed = routings.deployed[k].tobytes()
        room = len(chosen) < most
        if deployed in sets and not (room and routings.apart(k, chosen, APART)):
            continue
        chosen.append(k)
        sets.add(deployed)
    return chosen


def light(search: Search) -> list[int]:
    """Routings that are worth a look for their load alone; none where quality is what is sought."""
    if search.problem.objective.goal == "quality":
        return []
    return list(lightest(search.routings.reached, allowed(search)).tolist())


def usd_needed(references: References) -> Floats:
    """(K): $/h that each routing's work takes at the least, on fractions of replicas that only keep up."""
    every = np.arange(len(references.search.routings))
    total = about_usd_per_hour(references.search, every)
    for stage, known in references.by_stage.items():
        table = known[0].demand.table
        unit = min(s.usd_per_hour * x for s, x in zip(table.shapes, table.saturated.tolist(), strict=True))
        tokens = (
            judge_tokens(references.search, every)
            if stage == JUDGE
            else stage_tokens(references.search, stage, every)
        )
        total += tokens / known[0].work * unit
    return total


def _bands(search: Search, need: Floats, low: float, high: float, bands: int) -> list[int]:
    """The routings that need the least in each of equal bands of quality between `low` and `high`."""
    lower = search.routings.lower
    low, high = max(low, float(lower.min())), min(high, float(lower.max()))
    chosen: list[int] = []
    edges = np.linspace(low, high, bands + 1)
    for a, b in pairwise(edges.tolist()):
        inside = np.flatnonzero((lower >= a) & (lower <= b))
        ordered = inside[np.argsort(need[inside], kind="stable")].tolist()
        chosen += search.routings.first_apart(ordered, PER_BAND, APART)
    return chosen


def _ranked(state: Refinement, composer: Composer, routings: Sequence[int]) -> list[int]:
    """Routings by what their best combination promises, those that sustain nothing left out."""
    distinct = list(dict.fromkeys(routings))
    found = list(state.search.threads.map(lambda k: combine(state, composer, k, QUICK), distinct))
    keyed = [(ranked[0].key, k) for ranked, k in zip(found, distinct, strict=True) if ranked]
    return [k for _, k in sorted(keyed)]
