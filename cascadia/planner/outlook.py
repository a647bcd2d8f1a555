"""What lies around a plan, for its report: other bars, other rates, other systems. Quick looks, not full searches.

Each bar gets the best of a few composed combinations, simulated end to end. Each model alone is what `compare` deploys:
the same function with the same effort; so is the coin. CascadeServe gets less of it, and its name says so: `compare`
searches it as long as a plan. Everything uses the tables that planning has made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.baselines import Entry, stand_alone
from cascadia.planner.bilevel import chebyshev
from cascadia.planner.cascadeserve import cascadeserve
from cascadia.planner.certified import first_certified
from cascadia.planner.coin import coin
from cascadia.planner.compare import slo_base_s
from cascadia.planner.compose import Composer
from cascadia.planner.deployment import Deployment
from cascadia.planner.evidence import latencies_s
from cascadia.planner.plan import PlanResult
from cascadia.planner.refine import EFFORT, Candidate, Effort, Refinement, combine, rank, within_limits
from cascadia.planner.refinement import composer as composer_of
from cascadia.planner.repeats import decided_repeated, repeated
from cascadia.planner.search import Search
from cascadia.planner.simulation import Simulator, quantile_s

Floats = NDArray[np.float64]

BARS = 5
MULTIPLIERS = (0.5, 1.0, 1.5, 2.0)
LOOK = Effort(routings=1, combinations=400, window_requests=1500)
CASCADESERVE_ROUTINGS = 1
QUICKLY = ", a quick look"
FEW_STEPS = Effort(simulated_requests=60_000, fewest_simulations=8)


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
class Outlook:
    slo_base_s: float
    bars: tuple[Bar, ...]
    rivals: tuple[Rival, ...]
    rates: Rates


def outlook(result: PlanResult) -> Outlook:
    search = result.search
    state = Refinement(search, Simulator.of(search.problem), result.loop.references)
    composer = composer_of(search, LOOK.window_requests)
    return Outlook(
        slo_base_s(search),
        _bars(state, composer, result),
        _rivals(search),
        _rates(state, result),
    )


def _bars(state: Refinement, composer: Composer, result: PlanResult) -> tuple[Bar, ...]:
    """Bars spread over what the routings reach, the plan's own among them."""
    search, routings = state.search, state.search.routings
    own = search.problem.objective.quality_min or 0.0
    low, high = float(routings.lower.min()), float(routings.lower.max())
    spread = [float(np.floor(q * 2) / 2) for q in np.linspace(max(low, own - 15), high, BARS)]
    found = []
    for bar in sorted({q for q in spread if abs(q - own) > 0.25 and 0 <= q <= high}):
        objective = replace(search.problem.objective, quality_min=bar)
        scores = chebyshev(objective, routings, result.loop.prices_s)
        good = np.flatnonzero(np.isfinite(scores) & (routings.lower >= bar))
        chosen = good[np.argsort(scores[good], kind="stable")[: LOOK.routings]].tolist()
        found.append(Bar(bar, _best(state, composer, chosen)))
    if own > 0:
        found.append(Bar(own, result.chosen))
    return tuple(_with_stricter(state, sorted(found, key=lambda b: b.quality_min)))


def _with_stricter(state: Refinement, bars: list[Bar]) -> list[Bar]:
    """What holds a higher bar holds a lower one: each bar's best among its own and those of higher ones."""
    problem = state.search.problem
    for at in range(len(bars) - 2, -1, -1):
        known = [b.best for b in bars[at : at + 2] if b.best is not None]
        bars[at] = Bar(bars[at].quality_min, min(known, key=lambda c: rank(problem, c)) if known else None)
    return bars


def _best(state: Refinement, composer: Composer, routings: Sequence[int]) -> Candidate | None:
    """The best by composed latency, simulated; None where it breaks a limit or nothing is sustained."""
    tried = _first(state, composer, routings)
    return first_certified(
        state, [c for c in state.simulate(tried) if within_limits(state.search.problem, c)]
    )


def _first(state: Refinement, composer: Composer, routings: Sequence[int]) -> list[Deployment]:
    ranked = state.search.threads.map(lambda k: combine(state, composer, k, LOOK), routings)
    return [found[0].deployment for found in ranked if found]


def _rivals(search: Search) -> tuple[Rival, ...]:
    """Each model alone, whatever its quality; the coin and CascadeServe at the plan's bar."""
    problem = search.problem
    free = replace(problem.objective, quality_min=0.0 if problem.objective.quality_min is not None else None)
    whatever = replace(search, problem=replace(problem, objective=free))
    found = [
        replace(stand_alone(whatever, s, EFFORT, with_rate=False), name=f"{stage.name} alone")
        for s, stage in enumerate(problem.stages)
    ]
    found.append(replace(coin(search, EFFORT, with_rate=False), name="coin"))
    served = cascadeserve(search, FEW_STEPS, most_routings=CASCADESERVE_ROUTINGS, with_rate=False)
    found.append(replace(served, name=f"CascadeServe{QUICKLY}"))
    return tuple(_rival(search, entry) for entry in found if entry.best is not None and entry.run is not None)


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
