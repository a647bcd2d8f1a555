"""The cheapest of the plans that are about as fast as the fastest, and what latency costs beyond them.

Where latency alone is sought, a search spends whatever there is: the last few percent may cost more than all the rest.
So once the fastest plan is found, cheaper ones no more than `within` slower are looked for on purpose, as for the goal
`cost` under that latency. A few more searches under looser bounds tell how steep the way down is
(`sensitivity/knee.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cascadia.domain.objective import Objective
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.refine import Candidate, Effort, refine
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
    """`chosen`: the cheapest within the objective's `within` of the fastest. `candidates`: also what was tried here."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]


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
    known = {c.deployment.key: c for c in candidates}
    within = _under(search, limit_s)

    def cheapest() -> list[Candidate]:
        return sorted((c for c in known.values() if within_limits(within.problem, c)), key=_by_cost)

    progress(f"cheaper, and no slower than {limit_s:.3g} s")
    starts = [c.deployment for c in cheapest()[:STARTS]]
    best_first = sorted(candidates, key=lambda c: c.latency_s)
    routings = list(dict.fromkeys(c.deployment.routing for c in best_first))[:ROUTINGS]
    _, tried = refine(within, loop, effort=EFFORT, progress=progress, starts=starts, routings=routings)
    known |= {c.deployment.key: c for c in tried}
    holding = first_certified(Refinement(within, Simulator.of(search.problem), loop.references), cheapest())
    chosen = holding or fastest
    known[chosen.deployment.key] = chosen
    known |= {c.deployment.key: c for c in _down_the_slope(search, loop, chosen, fastest.latency_s)}
    return Thrift(chosen, tuple(known.values()))


def _under(search: Search, limit_s: float) -> Search:
    asked = search.problem.objective
    objective = Objective("cost", asked.quantile, asked.quality_min, limit_s, levels=asked.levels)
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
