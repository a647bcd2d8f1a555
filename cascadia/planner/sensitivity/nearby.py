"""Surroundings of a plan, for its report: other bars, other rates, other systems. Quick looks, not full
searches.

Each bar gets the best of a few composed combinations, simulated end to end. Each model alone is what `compare` deploys:
the same function with the same effort; so is the coin. CascadeServe gets less of it, and its name says so: `compare`
searches it as long as a plan. Everything uses the tables that planning has made.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.baselines.coin import coin
from cascadia.planner.baselines.compare import slo_base_s
from cascadia.planner.baselines.rivals import alone, served
from cascadia.planner.baselines.single_model import Entry
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.measures import latencies_s
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.refine import (
    EFFORT,
    Candidate,
    Effort,
    Refinement,
    combine,
    rank,
    within_limits,
)
from cascadia.planner.refinement.state import composer as composer_of
from cascadia.planner.search.bilevel import chebyshev
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import Search
from cascadia.planner.stability.repeats import decided_repeated, repeated

Floats = NDArray[np.float64]

BARS = 5
MULTIPLIERS = (0.5, 1.0, 1.5, 2.0)
LOOK = Effort(routings=1, combinations=400, window_requests=1500)
QUICKLY = ", a quick look"


@dataclass(frozen=True, slots=True)
class Bar:
    """The quick look at another quality bar; `best` is None where nothing is sustained."""

    quality_min: float
    best: Candidate | None


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """Another system's latencies (n), and where it stands."""

    name: str
    latency_s: Floats
    quantile_s: float
    quality_mean: float
    quality_lower: float
    usd_per_hour: float


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Quantiles (3, k) at multiples (k) of the planned rate; NaN beyond what the plan carries."""

    multiplier: Floats
    quantiles_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    slo_base_s: float
    bars: tuple[Bar, ...]
    rivals: tuple[Rival, ...]
    rates: Rates


def sensitivity_of(result: PlanResult) -> Sensitivity:
    search = result.search
    # Nobody is compared with whom there was no time to search for.
    cut = search.deadline.left_out
    state = Refinement(search, search.simulator, result.loop.references)
    composer = composer_of(search, LOOK.window_requests)
    # Each search has threads of the search's own to simulate on; between two simulations these keep them busy.
    with ThreadPoolExecutor(os.cpu_count() or 1) as beside:
        rivals = [] if cut else [beside.submit(rival) for rival in _rivals(search)]
        bars = _bars(state, composer, result)
        rates = _rates(state, result)
        entries = [rival.result() for rival in rivals]
    if search.deadline.passed:
        entries = []
    found = tuple(_rival(search, e) for e in entries if e.best is not None and e.run is not None)
    return Sensitivity(slo_base_s(search), bars, found, rates)


def _bars(state: Refinement, composer: Composer, result: PlanResult) -> tuple[Bar, ...]:
    """Bars spread over what the routings reach, the plan's own among them."""
    search, routings = state.search, state.search.routings
    own = search.problem.objective.quality_min or 0.0
    low, high = float(routings.lower.min()), float(routings.lower.max())
    if search.deadline.passed:
        return (Bar(own, result.chosen),) if own > 0 else ()
    spread = [float(np.floor(q * 2) / 2) for q in np.linspace(max(low, own - 15), high, BARS)]
    bars = sorted(
        {q for q in spread if abs(q - own) > 0.25 and 0 <= q <= high} | ({own} if own > 0 else set())
    )
    found: list[Bar] = []
    stricter: Candidate | None = None
    for bar in reversed(bars):
        if own > 0 and bar == own:
            tried = [result.chosen]
        else:
            objective = replace(search.problem.objective, quality_min=bar)
            scores = chebyshev(objective, routings, result.loop.prices_s)
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


def _rivals(search: Search) -> list[Callable[[], Entry]]:
    """Each model alone, whatever its quality; the coin and CascadeServe at the plan's bar."""

    def named(name: str, make: Callable[[], Entry]) -> Entry:
        return replace(make(), name=name)

    return [
        *(
            partial(named, f"{stage.name} alone", partial(alone, search, s))
            for s, stage in enumerate(search.problem.stages)
        ),
        partial(named, "coin", partial(coin, search, EFFORT, with_rate=False)),
        partial(named, f"CascadeServe{QUICKLY}", partial(served, search)),
    ]


def _rival(search: Search, found: Entry) -> Rival:
    assert found.best is not None
    assert found.run is not None
    latency = latencies_s(found.run)
    at = quantile_s(latency, search.quantile)
    return Rival(found.name, latency, at, found.quality_mean, found.quality_lower, found.best.usd_per_hour)


def _rates(state: Refinement, result: PlanResult) -> Rates:
    chosen, most = result.chosen.deployment, result.plan.headroom or 1.0
    decided = state.search.decisions(chosen.routing)
    rounds = result.plan.stability.rounds if result.plan.stability else 1

    def at(multiplier: float) -> tuple[float, ...]:
        if multiplier > most:
            return (np.nan,) * 3
        run = result.run
        if multiplier != 1.0:
            run = repeated(result.simulator, 1, multiplier).run(chosen, decided_repeated(decided, rounds))
        latency = latencies_s(run)
        return tuple(quantile_s(latency, q) for q in (0.5, 0.95, 0.99))

    columns = list(state.search.threads.map(at, MULTIPLIERS))
    return Rates(np.array(MULTIPLIERS), np.array(columns).T)
