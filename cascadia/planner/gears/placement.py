"""The cheapest replicas whose ladder keeps the bounds, over all levels of the trace's load (CascadeServe's SP3).

The search for the least cost asks of each deployment that one setting keeps the bound on latency, bursts included. One
that is too slow in bursts alone may keep it on a ladder. So the deployments that the search has simulated and that cost
less than what it chose are walked by rising cost, and the first is taken

1. whose own setting keeps the bar and carries the trace for as long as it goes on, if slowly (its certificate),
2. whose lightest routing alone keeps the bound (a ladder is hardly faster than that),
3. whose ladder keeps both bounds on the whole trace.

So a plan with gears never costs more than one without. Which deployments were simulated is the search's choice, made
for one setting: cheaper ones that it never looked at are not found. Few are walked, so the walk is made for each
combination of pools, lest cheap replicas of one that are too slow crowd out those of another.

Where APIs are paid for, what a ladder sends them costs too: all that are walked are compared, what was chosen and its
ladder among them.

Where quality is sought, gears use idle capacity, which cheaper replicas have less of. So replicas that cost less, and
are as good with one setting, are taken only where their ladder is no worse than the dear ones'. A mixture of routings
has no gears: it gives way where the best single routing is better on its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.candidates import candidates
from cascadia.planner.gears.ladder import FoundLadder, Goals, find_ladder
from cascadia.planner.refinement.state import (
    PLAINLY_OVERLOADED,
    Candidate,
    Refinement,
    rank,
    within_limits,
)
from cascadia.planner.refinement.supersets import parts
from cascadia.planner.search import elsewhere
from cascadia.planner.search.context import Search
from cascadia.planner.search.reference_tables import References
from cascadia.planner.stability.certificate import certify
from cascadia_sim.iteration.timing import PS_PER_S

TOO_SLOW = 2.0
"""Times the bound: what one setting is slower by in bursts no ladder puts right."""

LADDERS = 4
"""So many ladders are looked for, and so many deployments at all."""
LOOKED_AT = 24


class Placed(NamedTuple):
    """A deployment under its own setting, and its ladder; None where one setting does as well."""

    candidate: Candidate
    ladder: FoundLadder | None

    @property
    def quality_lower(self) -> float:
        return self.candidate.quality_lower if self.ladder is None else self.ladder.quality_lower

    @property
    def usd_per_hour(self) -> float:
        if self.ladder is None:
            return self.candidate.usd_per_hour
        return self.candidate.deployment.usd_per_hour + self.ladder.elsewhere_usd


def cheaper_on_gears(
    search: Search, tried: Sequence[Candidate], chosen: Candidate, progress: Callable[[str], None]
) -> Placed | None:
    """The cheapest of those `tried`, cheaper than `chosen`, whose ladder keeps the bounds."""
    objective = search.problem.objective
    deadline = objective.deadline
    if objective.goal != "cost" or deadline is None or search.problem.gears < 2:
        return None
    goals, simulator = Goals.of(search.problem, deadline.max_s), search.simulator
    light: dict[object, tuple[float, ...]] = {}
    placed: dict[object, Placed | None] = {}
    best = Placed(chosen, None)
    paid = elsewhere.charges(search.problem)
    may = paid and not _is_mixture(search, chosen)
    if may and (on_its_own := _placed(search, simulator, chosen, goals)) is not None:
        best = min(best, on_its_own, key=lambda found: found.usd_per_hour)
    for pools in parts(search.problem.cluster):
        names = {pool.name for pool in pools}
        here = [c for c in tried if all(r.shape.pool in names for _, mix in c.deployment.mixes for r in mix)]
        # Of each floor: else those that only the lower one may help would crowd out the others.
        left = {each.floor: LADDERS for each in goals.by_floor}
        for candidate in _cheaper(search, here, best.usd_per_hour, goals):
            if not any(left.values()) or search.deadline.leaves_out("cheaper replicas with gears"):
                break
            key = candidate.deployment.key
            if key not in light:
                light[key] = tuple(_light_enough(search, simulator, candidate, goals))
            helped = [floor for floor in light[key] if left[floor]]
            if not helped:
                continue
            for floor in helped:
                left[floor] -= 1
            if key not in placed:
                progress(f"gears on ${candidate.usd_per_hour:,.2f}/h")
                placed[key] = _placed(search, simulator, candidate, goals)
            found = placed[key]
            if found is not None and found.usd_per_hour < best.usd_per_hour:
                best = found
                if not paid:
                    break
    return best if best.ladder is not None else None


def as_good_on_gears(
    search: Search, dear: Candidate, cheaper: Sequence[Candidate], progress: Callable[[str], None]
) -> Placed | None:
    """The cheapest looked at of `cheaper`, by rising cost, or `dear`; on gears its quality is no less than `dear`'s.

    None where no gear is better than the setting of `dear`: whatever is as good as that will do. Quality mostly rises
    with cost, so few ladders find about where it is enough.
    """
    # Past the deadline no ladder is looked for at all, so that one setting decides.
    if search.problem.gears < 2 or _is_mixture(search, dear) or search.deadline.passed:
        return None
    if search.routings.plain.lower.max() <= dear.quality_lower:
        return None
    progress("gears on what costs less")
    best = _laddered(search, dear)
    least = best.quality_lower - 1e-9
    state = Refinement(search, search.simulator, References(search))
    low, high = 0, len(cheaper)
    for at in range(LADDERS):
        middle = low if at == 0 else (low + high) // 2
        if low >= high or search.deadline.leaves_out("cheaper replicas with gears"):
            break
        found = state.certified(cheaper[middle])
        placed = _laddered(search, found) if _holds(search, found) else None
        if placed is not None and placed.quality_lower >= least:
            best, high = placed, middle
        else:
            low = middle + 1
    return best


def better_than_mixed(
    search: Search, mixture: Candidate, tried: Sequence[Candidate], progress: Callable[[str], None]
) -> Placed | None:
    """The best of those `tried` that is no mixture, where its quality on gears is above that of `mixture`, which has
    none beside it.

    Its routing is tried on the replicas of `mixture` too: those that one setting is fastest on may have the least room
    for others.
    """
    problem = search.problem
    if problem.objective.goal != "quality" or problem.gears < 2 or not _is_mixture(search, mixture):
        return None
    if search.routings.plain.lower.max() <= mixture.quality_lower:
        return None
    if search.deadline.leaves_out("gears in place of a mixture"):
        return None
    progress("gears in place of a mixture")
    state = Refinement(search, search.simulator, References(search))
    single = [c for c in tried if not _is_mixture(search, c) and within_limits(problem, c)]
    single.sort(key=lambda c: rank(problem, c))
    stages = dict(mixture.deployment.mixes).keys()
    same = next((c for c in single if dict(c.deployment.mixes).keys() == stages), None)
    there = [] if same is None else [replace(mixture.deployment, routing=same.deployment.routing)]
    placed = {}
    for likely in (state.simulate(there), single[:LADDERS]):
        found = next((c for c in map(state.certified, likely) if _holds(search, c)), None)
        if found is not None and found.deployment.key not in placed:
            placed[found.deployment.key] = _laddered(search, found)
    best = max(placed.values(), key=lambda each: each.quality_lower, default=None)
    return best if best is not None and best.quality_lower > mixture.quality_lower else None


def _is_mixture(search: Search, candidate: Candidate) -> bool:
    mixed = search.routings.mixed
    return mixed is not None and bool(mixed.share[candidate.deployment.routing] > 0)


def _holds(search: Search, certified: Candidate) -> bool:
    assert certified.certificate is not None
    return certified.certificate.holds and within_limits(search.problem, certified)


def _laddered(search: Search, candidate: Candidate) -> Placed:
    """A certified candidate and its ladder, where that keeps the levels."""
    certificate = candidate.certificate
    assert certificate is not None
    if _is_mixture(search, candidate):
        return Placed(candidate, None)
    problem = replace(certificate.problem, objective=search.problem.objective)
    simulator = replace(certificate.simulator, problem=problem)
    own_s = certificate.run.latency_ps / PS_PER_S
    goals = Goals.of(search.problem, quantile_s(own_s, search.problem.objective.quantile))
    found = find_ladder(search, simulator, candidate.deployment, own_s, goals)
    return Placed(candidate, found if found is not None and keeps_levels(problem, found) else None)


def _cheaper(
    search: Search, tried: Sequence[Candidate], most_usd: float, goals: Goals
) -> Iterator[Candidate]:
    """Replicas for less than `most_usd` by rising cost; of each set of them the fastest routing that reaches the bar,
    and is no mixture: beside gears a plan has none."""
    likely = [
        c
        for c in tried
        if not _is_mixture(search, c)
        and c.deployment.usd_per_hour < most_usd
        and c.quality_lower >= goals.bar
        and c.load <= PLAINLY_OVERLOADED
        and c.latency_s <= TOO_SLOW * goals.bound_s
    ]
    seen: set[object] = set()
    for c in sorted(likely, key=lambda c: (c.usd_per_hour, c.latency_s)):
        replicas = replace(c.deployment, routing=0).key
        if replicas not in seen and len(seen) < LOOKED_AT:
            seen.add(replicas)
            yield c


def _light_enough(
    search: Search, simulator: Simulator, candidate: Candidate, goals: Goals
) -> Iterator[float]:
    """Floors of which the lightest routing alone is in time."""
    for each in goals.by_floor:
        among = candidates(search, candidate.deployment, each.floor, 0.0)
        if len(among):
            run = simulator.run(candidate.deployment, search.decisions(int(among.routings[-1])))
            if _late(run.latency_ps / PS_PER_S, goals) <= goals.late:
                yield each.floor


def _placed(search: Search, simulator: Simulator, candidate: Candidate, goals: Goals) -> Placed | None:
    deployment = candidate.deployment
    decided = search.decisions(deployment.routing)
    shares = search.capacities.shares(search.problem, deployment, decided)
    certificate = certify(simulator, deployment, decided, shares)
    if not certificate.holds or certificate.stability.rounds > 1:
        return None
    own_s = certificate.run.latency_ps / PS_PER_S
    found = find_ladder(search, certificate.simulator, deployment, own_s, goals)
    if found is None or found.late > goals.late or found.quality_lower < goals.bar:
        return None
    if not keeps_levels(certificate.problem, found):
        return None
    settled = replace(
        candidate,
        certificate=certificate,
        latency_s=certificate.stability.objective_once_s,
        levels_s=reached_s(certificate.problem, certificate.run, search.problem.objective.levels),
    )
    return Placed(settled, found)


def keeps_levels(problem: Problem, found: FoundLadder) -> bool:
    """Tells whether the ladder keeps the objective's service levels on its trace, which has `problem`'s requests.

    Lateness is what a ladder is made for; TTFT and TPOT are only looked at afterwards.
    """
    levels = problem.objective.levels
    reached = reached_s(problem, found.played.run, levels)
    return all(s <= level.max_s for s, level in zip(reached, levels, strict=True))


def _late(latency_s: "np.ndarray[tuple[int], np.dtype[np.float64]]", goals: Goals) -> float:
    return float((latency_s > goals.bound_s).mean())
