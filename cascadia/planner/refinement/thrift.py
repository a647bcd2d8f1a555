"""The cheapest of the plans that are about as fast as the fastest, or as good as the best.

Where latency alone is sought, a search spends whatever there is: the last few percent may cost more than all the rest.
So once the fastest plan is found, cheaper ones no more than `within` slower are looked for on purpose, as for the goal
`cost` under that latency. A few more searches under looser bounds tell how steep the way down is
(`sensitivity/knee.py`). Where quality is sought, what is looked for costs less, reaches the best quality found and
keeps the objective's own bounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cascadia.domain.objective import Objective
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.refine import Candidate, Effort, refine
from cascadia.planner.refinement.shortlist import shortlist
from cascadia.planner.refinement.state import Ranked, Refinement, combine, composer, within_limits
from cascadia.planner.search.bilevel import BilevelResult
from cascadia.planner.search.context import Search

EFFORT = Effort(simulated_requests=50_000, fewest_simulations=4)
ROUTINGS = 5
"""Of the search for a cheaper plan, which has from that for the fastest what combinations promise, and the routings:
those of the best candidates."""

LOOSER = (1.1, 1.25, 1.5, 2.0, 3.0)
"""Multiples of the least latency, at each of which the cheapest deployments by composition are simulated."""
STARTS = 3


@dataclass(frozen=True, slots=True)
class Thrift:
    """`chosen`: the cheapest that is about as fast, or as good. `candidates`: also what was tried here.
    `dearer`: of those that promise as much, by rising cost, what lies between `chosen` and what it was found from."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    dearer: tuple[Candidate, ...] = ()


def cheapest_within(
    search: Search,
    loop: BilevelResult,
    fastest: Candidate,
    candidates: Sequence[Candidate],
    progress: Callable[[str], None],
) -> Thrift:
    """Cheapest candidate near the fastest, for the goal `latency`; `candidates` are those that were simulated
    on the way to `fastest`.
    """
    objective = search.problem.objective
    if search.deadline.leaves_out("cheaper plans that are about as fast"):
        return Thrift(fastest, tuple(candidates))
    limit_s = fastest.latency_s * (1 + objective.within)
    within = _under(search, limit_s)
    progress(f"cheaper, and no slower than {limit_s:.3g} s")
    best_first = sorted(candidates, key=lambda c: c.latency_s)
    routings = list(dict.fromkeys(c.deployment.routing for c in best_first))[:ROUTINGS]
    thrift = _cheapest(within, loop, fastest, candidates, routings=routings, progress=progress)
    known = {c.deployment.key: c for c in thrift.candidates}
    known |= {c.deployment.key: c for c in _down_the_slope(search, loop, thrift.chosen, fastest.latency_s)}
    return Thrift(thrift.chosen, tuple(known.values()))


def cheapest_as_good(
    search: Search,
    loop: BilevelResult,
    best: Candidate,
    candidates: Sequence[Candidate],
    progress: Callable[[str], None],
    *,
    effort: Effort = EFFORT,
) -> Thrift:
    """Cheapest candidate of at least the quality of `best`, for the goal `quality`, under the objective's bounds."""
    if search.deadline.leaves_out("cheaper plans that are as good"):
        return Thrift(best, tuple(candidates))
    as_good = _under(search, search.problem.objective.latency_max_s, best.quality_lower)
    progress(f"cheaper, and of quality {best.quality_lower:.4g} or better")
    few = shortlist(Refinement(as_good, Simulator.of(search.problem), loop.references), loop, ROUTINGS)
    # The best's own comes along: what needs the least by its work may keep no bound.
    routings = list(dict.fromkeys([best.deployment.routing, *few]))
    return _cheapest(as_good, loop, best, candidates, routings=routings, progress=progress, effort=effort)


def _cheapest(
    under: Search,
    loop: BilevelResult,
    found: Candidate,
    candidates: Sequence[Candidate],
    *,
    routings: Sequence[int],
    progress: Callable[[str], None],
    effort: Effort = EFFORT,
) -> Thrift:
    """Cheapest that is certified `under` its bounds, by a search from the cheapest of `candidates`; else `found`."""
    known = {c.deployment.key: c for c in (found, *candidates)}

    bar = under.problem.objective.quality_min or 0.0

    def cheapest() -> list[Candidate]:
        good = (c for c in known.values() if c.quality_lower >= bar and within_limits(under.problem, c))
        return sorted(good, key=_by_cost)

    starts = [c.deployment for c in cheapest()[:STARTS]]
    _, tried = refine(under, loop, effort=effort, progress=progress, starts=starts, routings=routings)
    known |= {c.deployment.key: c for c in tried}
    state = Refinement(under, Simulator.of(under.problem), loop.references)
    chosen = first_certified(state, cheapest()) or found
    # All that cost less may have failed their certificates.
    if chosen.usd_per_hour > found.usd_per_hour:
        chosen = found
    known[chosen.deployment.key] = chosen
    # One of each price: what differs in routing or shares alone is much alike.
    by_price = {c.usd_per_hour: c for c in reversed(cheapest())}
    between = [by_price[usd] for usd in sorted(by_price) if chosen.usd_per_hour < usd < found.usd_per_hour]
    return Thrift(chosen, tuple(known.values()), tuple(between))


def _under(search: Search, limit_s: float | None, quality_min: float | None = None) -> Search:
    asked = search.problem.objective
    bar = asked.quality_min if quality_min is None else quality_min
    objective = Objective("cost", asked.quantile, bar, limit_s, levels=asked.levels)
    return replace(search, problem=replace(search.problem, objective=objective))


def _by_cost(c: Candidate) -> tuple[float, int, float]:
    return c.usd_per_hour, c.deployment.gpus, c.latency_s


def _down_the_slope(
    search: Search, loop: BilevelResult, chosen: Candidate, fastest_s: float
) -> list[Candidate]:
    """Candidates under ever looser bounds: what is cheapest by composition for the chosen routing, simulated."""
    state = Refinement(search, Simulator.of(search.problem), loop.references)
    window = composer(search, EFFORT.window_requests)

    def cheapest(times: float) -> list[Ranked]:
        under = replace(state, search=_under(search, times * fastest_s))
        return combine(under, window, chosen.deployment.routing, EFFORT)

    ranked = search.threads.map(cheapest, LOOSER)
    return state.simulate([r.deployment for found in ranked for r in found[:1]])
