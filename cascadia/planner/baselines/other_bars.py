"""The best at other quality bars than the plan's: of a few composed combinations each, simulated end to end. Quick
looks, not full searches, on the tables that planning has made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.state import (
    Candidate,
    Effort,
    Refinement,
    combine,
    rank,
    within_limits,
)
from cascadia.planner.refinement.state import composer as composer_of
from cascadia.planner.search.bilevel import BilevelResult, chebyshev
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import Search

BARS = 5
LOOK = Effort(routings=1, combinations=400, window_requests=1500)


@dataclass(frozen=True, slots=True)
class Bar:
    """The quick look at another quality bar; `best` is None where nothing is sustained."""

    quality_min: float
    best: Candidate | None


def other_bars(search: Search, loop: BilevelResult, own_best: Candidate) -> tuple[Bar, ...]:
    """Bars spread over what the routings reach, the plan's own, of which `own_best` is the best, among them."""
    state, routings = Refinement(search, search.simulator, loop.references), search.routings
    composer = composer_of(search, LOOK.window_requests)
    own = search.problem.objective.quality_min or 0.0
    low, high = float(routings.lower.min()), float(routings.lower.max())
    if search.deadline.passed:
        return (Bar(own, own_best),) if own > 0 else ()
    spread = [float(np.floor(q * 2) / 2) for q in np.linspace(max(low, own - 15), high, BARS)]
    bars = sorted(
        {q for q in spread if abs(q - own) > 0.25 and 0 <= q <= high} | ({own} if own > 0 else set())
    )
    found: list[Bar] = []
    stricter: Candidate | None = None
    for bar in reversed(bars):
        if own > 0 and bar == own:
            tried = [own_best]
        else:
            objective = replace(search.problem.objective, quality_min=bar)
            scores = chebyshev(objective, routings, loop.prices_s)
            good = np.flatnonzero(np.isfinite(scores) & (routings.lower >= bar))
            chosen = good[np.argsort(scores[good], kind="stable")[: LOOK.routings]].tolist()
            tried = state.simulate(_first(state, composer, chosen))
        stricter = _best(state, tried, stricter)
        found.append(Bar(bar, stricter))
    return tuple(reversed(found))


def _best(state: Refinement, tried: Sequence[Candidate], stricter: Candidate | None) -> Candidate | None:
    """The best of `tried` that holds, or `stricter`: what holds a higher bar holds a lower one. Only what would be
    better than that has to be certified. None where all break a limit or nothing is sustained.
    """
    problem = state.search.problem
    better = [
        c
        for c in tried
        if within_limits(problem, c) and (stricter is None or rank(problem, c) < rank(problem, stricter))
    ]
    found = first_certified(state, better)
    known = [c for c in (stricter, found) if c is not None]
    return min(known, key=lambda c: rank(problem, c), default=None)


def _first(state: Refinement, composer: Composer, routings: Sequence[int]) -> list[Deployment]:
    ranked = state.search.threads.map(lambda k: combine(state, composer, k, LOOK), routings)
    return [found[0].deployment for found in ranked if found]
