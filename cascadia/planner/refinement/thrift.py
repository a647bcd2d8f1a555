"""The cheapest of the plans that are about as fast as the fastest, or as good as the best.

Where latency alone is sought, a search spends whatever there is: the last few percent may cost more than all the rest.
So once the fastest plan is found, cheaper ones no more than `within` slower are looked for on purpose, as for the goal
`cost` under that latency. A few more searches under looser bounds tell how steep the way down is
(`sensitivity/knee.py`). Where quality is sought, what is looked for costs less, reaches the best quality found and
keeps the objective's own bounds.

On the way down candidates are met that are better than the best. So each part of a cluster looks for cheaper ones
(`supersets.py`), whether they are wanted or not: what is better is where the search goes on from.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace

from cascadia.domain.objective import Objective
from cascadia.planner.deployment.deployment import CENT
from cascadia.planner.refinement.certified import best_ahead, first_certified
from cascadia.planner.refinement.neighbours import neighbours
from cascadia.planner.refinement.refine import EFFORT, Candidate, Effort, refine
from cascadia.planner.refinement.shortlist import shortlist
from cascadia.planner.refinement.state import Ranked, Refinement, combine, composer, rank, within_limits
from cascadia.planner.search.bilevel import BilevelResult
from cascadia.planner.search.context import Search

LITTLE = Effort(simulated_requests=50_000, fewest_simulations=4)
ROUTINGS = 5
"""Of the search for a cheaper plan, which has from that for the fastest what combinations promise, and the routings:
those of the best candidates."""

NEAR = 0.03
"""Where no tolerance is given, what is looked for is so near to the fastest."""
LOOSER, TIGHTER = (1.1, 1.25, 1.5, 2.0, 3.0), (0.9, 0.75, 0.6, 0.45, 0.3)
"""Multiples of the least latency, and of the cheapest plan's, at each of which the cheapest deployments by composition
are simulated."""
STARTS = 3
STEPS = 8
"""So many at most from the cheapest to what is faster for as much."""


@dataclass(frozen=True, slots=True)
class Thrift:
    """`best`: no candidate that was met and holds is better by the goal. `chosen`: the cheapest that is about as fast,
    or as good. `candidates`: also what was tried here. `dearer`: of those that promise as much, by rising cost, what
    lies between `chosen` and `best`."""

    best: Candidate
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    dearer: tuple[Candidate, ...] = ()


def seeks(objective: Objective) -> bool:
    """Tells whether the goal leaves open what plans cost, so that cheaper ones are looked for."""
    return objective.goal in _LOOKED_FOR


def cheapest_beside(
    search: Search,
    loop: BilevelResult,
    best: Candidate,
    candidates: Iterable[Candidate],
    progress: Callable[[str], None],
    *,
    effort: Effort | None = None,
) -> Thrift:
    """The cheapest beside the best, for the goals `latency` and `quality`; `candidates` are those that were simulated
    on the way to `best`. `effort`: of the search that found them; the one for cheaper ones makes no more.
    """
    known = {c.deployment.key: c for c in (*candidates, best)}
    if search.deadline.leaves_out(_LOOKED_FOR[search.problem.objective.goal]):
        return Thrift(best, best, tuple(known.values()))
    state = Refinement(search, search.simulator, loop.references, seen=known)
    under = _beside(search, best)
    progress(_LOOKED_FOR[search.problem.objective.goal])
    routings = _routings(search, under, loop, best, known.values())
    starts = [c.deployment for c in _by_cost(under, known.values())[:STARTS]]
    _, tried = refine(
        under,
        loop,
        effort=LITTLE if effort is None else Effort(*map(min, astuple(LITTLE), astuple(effort))),
        progress=progress,
        starts=starts,
        routings=routings,
        just_carried=search.problem.objective.goal != "latency",
    )
    known |= {c.deployment.key: c for c in tried if c.certificate or c.deployment.key not in known}
    chosen = _cheapest(under, loop, best, known)
    # Certificates are asked for on the way, and each may show another that is better.
    while (better := best_ahead(state, best)) is not None:
        best, under = better, _beside(search, better)
        chosen = _cheapest(under, loop, best, known)
    return Thrift(best, chosen, tuple(known.values()), _between(under, chosen, best, known.values()))


_LOOKED_FOR = {
    "latency": "cheaper plans that are about as fast",
    "quality": "cheaper plans that are as good",
}


def _beside(search: Search, best: Candidate) -> Search:
    """The search for the least cost among what is about as fast as `best`, or as good."""
    objective = search.problem.objective
    if objective.goal == "quality":
        return _under(search, objective.latency_max_s, best.quality_lower)
    about_as_fast_s = best.latency_s * (1 + (objective.within or NEAR))
    return _under(search, min(about_as_fast_s, objective.latency_max_s or math.inf))


def _routings(
    search: Search, under: Search, loop: BilevelResult, best: Candidate, candidates: Iterable[Candidate]
) -> list[int]:
    """Routings to look at. The best's own comes along: what needs the least by its work may keep no bound."""
    if search.problem.objective.goal == "quality":
        few = shortlist(Refinement(under, under.simulator, loop.references), loop, ROUTINGS)
        return list(dict.fromkeys([best.deployment.routing, *few]))
    fastest_first = sorted(candidates, key=lambda c: c.latency_s)
    few = [best.deployment.routing, *(c.deployment.routing for c in fastest_first)]
    return list(dict.fromkeys(few))[:ROUTINGS]


def _cheapest(
    under: Search, loop: BilevelResult, best: Candidate, known: dict[object, Candidate]
) -> Candidate:
    """The cheapest that is certified `under` its bounds; what was asked is kept in `known`."""
    state = Refinement(under, under.simulator, loop.references, seen=known)
    chosen = first_certified(state, _by_cost(under, known.values())) or best
    # All that cost less may have failed their certificates; and GPUs that are paid for all the same are not spared.
    idles = chosen.deployment.usd_per_hour > chosen.deployment.in_use_usd
    spares = chosen.usd_per_hour < best.usd_per_hour or (
        chosen.usd_per_hour == best.usd_per_hour and not idles
    )
    chosen = chosen if spares else best
    known[chosen.deployment.key] = chosen
    return chosen


def _between(
    under: Search, chosen: Candidate, best: Candidate, candidates: Iterable[Candidate]
) -> tuple[Candidate, ...]:
    """One of each price: what differs in routing or shares alone is much alike."""
    by_price = {c.usd_per_hour: c for c in reversed(_by_cost(under, candidates))}
    return tuple(by_price[usd] for usd in sorted(by_price) if chosen.usd_per_hour < usd < best.usd_per_hour)


def _under(search: Search, limit_s: float | None, quality_min: float | None = None) -> Search:
    asked = search.problem.objective
    bar = asked.quality_min if quality_min is None else quality_min
    objective = Objective("cost", asked.quantile, bar, limit_s, levels=asked.levels)
    return replace(search, problem=replace(search.problem, objective=objective, asked=asked))


def _by_cost(under: Search, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates that promise to keep the bounds, cheapest first."""
    bar = under.problem.objective.quality_min or 0.0
    good = (c for c in candidates if c.quality_lower >= bar and within_limits(under.problem, c))
    return sorted(good, key=lambda c: (c.usd_per_hour, c.deployment.gpus, c.latency_s))


def fastest_for_as_much(
    search: Search, loop: BilevelResult, best: Candidate, candidates: Iterable[Candidate]
) -> tuple[Candidate, tuple[Candidate, ...]]:
    """The fastest that costs no more than the `best`, the cheapest, where nodes are paid for whole and some of its GPUs
    idle. With it come all `candidates`, and those that were tried here.
    """
    known = {c.deployment.key: c for c in (*candidates, best)}
    if best.deployment.usd_per_hour <= best.deployment.in_use_usd + CENT or search.deadline.passed:
        return best, tuple(known.values())
    problem, most_usd = search.problem, best.usd_per_hour + CENT
    under = replace(search, problem=replace(problem, objective=replace(problem.objective, goal="latency")))
    state = Refinement(under, search.simulator, loop.references, seen=known)

    def as_cheap() -> list[Candidate]:
        return [c for c in known.values() if c.usd_per_hour <= most_usd and within_limits(under.problem, c)]

    here = best
    for _ in range(STEPS):
        steps = neighbours(state, here.deployment, [here.deployment.routing], [])
        state.simulate(d for d in steps if d.usd_per_hour + here.elsewhere_usd <= most_usd)
        ahead = min(as_cheap(), key=lambda c: rank(under.problem, c), default=best)
        if ahead is here:
            break
        here = ahead
    return first_certified(state, as_cheap()) or best, tuple(known.values())


def on_the_slope(
    search: Search, loop: BilevelResult, routing: int, limits_s: Iterable[float]
) -> list[Candidate]:
    """Candidates of a routing under each of some limits: what is the cheapest by composition, simulated."""
    state = Refinement(search, search.simulator, loop.references)
    window = composer(search, EFFORT.window_requests)

    def cheapest(limit_s: float) -> list[Ranked]:
        return combine(replace(state, search=_under(search, limit_s)), window, routing, EFFORT)

    ranked = search.threads.map(cheapest, limits_s)
    return state.simulate([r.deployment for found in ranked for r in found[:1]])
