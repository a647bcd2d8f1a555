"""Refinement: the best plan by simulated end-to-end latency, not by the sum or maximum of stages.

1. Routings: a short list (`shortlist.py`).
2. For each, combinations of stage options are ranked by their composed latency (`search/composition.py`), and so are
   those of whole nodes only (`whole_nodes.py`), which a thinned list of options may not hold.
3. The best combinations, and the deployments of the integer program, are simulated end to end.
   Where cost is sought and the best of a routing is slower than promised, the bound for its next is as much tighter.
4. From the best of these, steps to a neighbouring option of one stage, or of two in opposite directions, or to
   another routing, or to other shares of unequal replicas, as long as one helps.
5. Other numbers of tokens an iteration for its engines (`batch_tokens.py`), and of drafts (`drafts.py`).
6. The best that carries the traffic for as long as it goes on (`certified.py`, `stability/certificate.py`), and keeps
   its bounds then. Where a better one keeps them on one round alone, some steps more under stricter bounds.

Everything is counted in simulated requests, never in seconds, so that a plan can be repeated.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.fewer import count_of, groups, most_alike, scaled, with_count
from cascadia.planner.deployment.shares import FINE, RATIOS, reshared
from cascadia.planner.refinement.batch_tokens import GAIN, other_budgets
from cascadia.planner.refinement.certified import Ceiling, best_certified, grown, missed
from cascadia.planner.refinement.drafts import other_drafts
from cascadia.planner.refinement.nearly_full import just_carrying
from cascadia.planner.refinement.neighbours import neighbours
from cascadia.planner.refinement.shortlist import light, shortlist, usd_needed
from cascadia.planner.refinement.standing import Standing, best_of_each, starts_of_each
from cascadia.planner.refinement.state import (
    EFFORT,
    HURRIED,
    Candidate,
    Effort,
    Ranked,
    Refinement,
    combine,
    effort_for,
    rank,
    strain,
    within_limits,
)
from cascadia.planner.refinement.state import composer as composer_of
from cascadia.planner.refinement.whole_nodes import whole_nodes
from cascadia.planner.search import elsewhere
from cascadia.planner.search.bilevel import BilevelResult, bilevel
from cascadia.planner.search.composition import Composer
from cascadia.planner.search.context import Search, allowed, restricted
from cascadia.planner.search.solver import solver

UNDER_A_BOUND = 4
"""So many times as many cascades are simulated where a latency bound decides which of them count."""

WHOLE_NODES = 1
FEWER = Effort(combinations=250)
"""Deployments of whole nodes that are simulated, and the effort to find them."""

TIGHTER = 4
MARGIN, AT_MOST_BY = 0.95, 0.5
"""So often the bound on what is promised becomes tighter, by so much more than was wrong, at most by this factor."""

MANY, TRIMMED, SIXTEENTHS, AFTER_TRIMMING = 8, 3, 16, 4
"""Replicas of one shape from which on single steps are small. The best candidates of so many routings have replicas
taken away, first by sixteenths of all; then the climb goes on for such a part of its budget."""

SHARED_ANEW = 6
"""So many times at most, of each size of step, the best candidate's shares are stepped from, beyond the budget of all
other steps."""

BATCHED_ANEW, TOO_SLOW = 8, 1.25
"""So many steps at most in how many tokens engines take an iteration; from a candidate that breaks the latency bound,
only where it takes at most so many times as long."""

HELD, FEWER_HELD = 2, 8
"""So often at most the search goes on under stricter bounds where the best keeps its own on one round alone, each time
with such a part of the simulations."""

ELSEWHERE = 12
"""Of routings that need no GPU, so many of each order are looked at."""

__all__ = [
    "EFFORT",
    "Candidate",
    "Effort",
    "Refinement",
    "combine",
    "effort_for",
    "rank",
    "refine",
    "within_limits",
]


def refine(
    search: Search,
    loop: BilevelResult,
    *,
    effort: Effort,
    progress: Callable[[str], None],
    equal_parts: bool = False,
    starts: Sequence[Deployment] = (),
    routings: Sequence[int] = (),
    just_carried: bool = True,
    any_will_do: bool = False,
) -> tuple[Candidate | None, list[Candidate]]:
    """The best candidate that holds (None: no deployment does, and keeps the bounds) and all that were simulated.

    `equal_parts`: no demand may take more than an equal part of the GPUs (a baseline). `starts`: deployments from
    elsewhere that are looked at too, and are climbed from where they are among the best. `routings`: those to look at,
    where they are known already. `just_carried`: look at replicas that are sent nearly all that they sustain; they are
    never the fastest. `any_will_do`: the search ends with the first that is known to hold within the bounds.
    """
    problem = search.problem
    if search.deadline.passed:
        effort = HURRIED
    state = Refinement(search, search.simulator, loop.references, equal_parts)
    good = allowed(search)
    routings = list(routings) or shortlist(state, loop, effort.routings)
    composer = composer_of(search, effort.window_requests)
    ranked = list(search.threads.map(lambda k: combine(state, composer, k, effort), routings))
    solved = [
        deployment(r.routing, dict(r.allocation.replicas))
        for r in loop.rounds
        if r.allocation is not None and good[r.routing] and not equal_parts
    ]
    # The paper's program counts GPUs, not what nodes hold.
    start = [d for d in solved if d.fits(problem.cluster)]
    simulations = max(effort.fewest_simulations, effort.simulated_requests // max(len(problem.workload), 1))
    simulations *= UNDER_A_BOUND if problem.objective.bounds else 1
    whole = list(
        search.threads.map(lambda k: combine(state, composer, k, FEWER, whole_nodes(state, k)), routings)
    )
    # Half of the budget; the rest is for steps, which find what no composed latency promised.
    own = [*start, *_best_first(whole, WHOLE_NODES), *_best_first(ranked, simulations // 2)]
    # Remembered, while another process may still look for `starts`.
    ahead, ceiling = replace(state, seen={}), Ceiling(state, any_will_do)
    firsts = own[: len(start) + WHOLE_NODES + len(routings)]
    ceiling.lower(ahead.simulate(firsts))
    if ceiling.suffices():
        return ceiling.held, list(ahead.seen.values())
    own = [*firsts, *filter(ceiling.admits, own[len(firsts) :])]
    ahead.simulate(own)
    starts = [*starts, *_wholly_elsewhere(search), *_beforehand(search, effort, equal_parts=equal_parts)]
    state.simulate([*starts, *own])
    if problem.objective.goal == "cost" and problem.objective.bounds:
        _tighten(state, composer, routings, effort)
    ceiling.lower(state.seen.values())
    progress(f"refine: {len(state.seen)} cascades simulated")
    climbed = [k for k in routings if state.menu(k)]
    _climb(state, simulations, climbed, light(search), ceiling)
    if ceiling.suffices():
        return ceiling.held, list(state.seen.values())
    if problem.objective.goal == "cost" and problem.objective.bounds and _trim(state):
        ceiling.lower(state.seen.values())
        spent = len(state.seen) + len(ceiling.passed_over)
        _climb(state, spent + simulations // AFTER_TRIMMING, climbed, light(search), ceiling)
    if just_carried and not equal_parts and problem.objective.goal != "latency":
        # After the climb: most are too slow, and would draw its steps to what is too slow as well.
        fullest = [*filter(ceiling.admits, just_carrying(search, usd_needed(loop.references)))]
        starts += fullest
        state.simulate(fullest)
    _share_anew(state)
    _batch_anew(state)
    progress(f"refine: {len(state.seen)} cascades simulated")

    def certified() -> Candidate | None:
        return best_certified(state, [c for c in state.seen.values() if within_limits(problem, c)], starts)

    best = certified()
    for _ in range(HELD):
        if not (growth := _growth(state, best)) or search.deadline.leaves_out(
            "plans that keep the bounds for longer"
        ):
            break
        progress("what keeps the bounds when the trace goes on")
        _search_on(
            replace(state, search=_stricter(search, growth)),
            composer,
            routings,
            effort,
            simulations // FEWER_HELD,
        )
        best = certified()
    return best, list(state.seen.values())


def _search_on(
    state: Refinement, composer: Composer, routings: Sequence[int], effort: Effort, simulations: int
) -> None:
    """Adds to what was simulated what is best by the state's own bounds, and so many steps from there."""
    ranked = state.search.threads.map(lambda k: combine(state, composer, k, effort), routings)
    state.simulate(_best_first(list(ranked), len(routings)))
    climbed = [k for k in routings if state.menu(k)]
    ceiling = Ceiling(state)
    ceiling.lower(state.seen.values())
    _climb(state, len(state.seen) + simulations, climbed, light(state.search), ceiling)


def _growth(state: Refinement, best: Candidate | None) -> float:
    """Times that the repeats take what one round does, by who would be better than `best` but for them; 0: nobody."""
    problem = state.search.problem
    better = [c for c in state.seen.values() if best is None or rank(problem, c) < rank(problem, best)]
    return grown(problem, better) if any(missed(problem, c) for c in better) else 0.0


def _stricter(search: Search, growth: float) -> Search:
    """The same search for what keeps bounds that are `growth` times as strict on one round."""
    asked = search.problem.objective
    problem = replace(
        search.problem, objective=asked.times(1.0 / growth), asked=search.problem.asked or asked
    )
    return replace(search, problem=problem)


def _wholly_elsewhere(search: Search) -> list[Deployment]:
    """Routings that need no GPU of ours: the cheapest, the best, and those that ask the fewest stages."""
    good = np.flatnonzero(allowed(search)).tolist()
    free = (
        [k for k in good if not search.demands(k)] if any(s.external for s in search.problem.stages) else []
    )
    routings = search.routings
    orders = (
        sorted(free, key=lambda k: elsewhere.usd_per_hour(search, k)),
        sorted(free, key=lambda k: -float(routings.lower[k])),
        sorted(free, key=lambda k: float(routings.reached[k].sum())),
    )
    return [deployment(k, {}) for k in dict.fromkeys(k for order in orders for k in order[:ELSEWHERE])]


def _beforehand(search: Search, effort: Effort, *, equal_parts: bool) -> list[Deployment]:
    """The best of the routings that ask no judge, by a search of their own: so no pre-router with the same foresight is
    better than a plan. None where nothing foresees, or all that is searched are such routings.
    """
    routings = search.routings
    judged = routings.judged(np.arange(len(routings))).any(axis=1)
    alone = np.flatnonzero((routings.deployed.sum(axis=1) > 1) & ~judged)
    if not 0 < len(alone) < len(routings) or search.deadline.leaves_out("routings by the question alone"):
        return []
    only = restricted(search, routings.take(alone))
    if not allowed(only).any():
        return []

    loop = bilevel(only, solver(only, "columns", prove=True), lambda _: None)
    best, _ = refine(only, loop, effort=effort, progress=lambda _: None, equal_parts=equal_parts)
    return [] if best is None else [replace(best.deployment, routing=int(alone[best.deployment.routing]))]


def _tighten(state: Refinement, composer: Composer, routings: Sequence[int], effort: Effort) -> None:
    """Composition knows a window of the traffic, and promises too much where bursts outlast that. What is cheapest
    under the bound is then too slow, and what keeps it was never promised as the cheapest.
    """
    bounds = dict.fromkeys(routings, 1.0)
    for _ in range(TIGHTER):
        if state.search.deadline.passed:
            return
        ranked = state.search.threads.map(
            lambda bound: combine(state, composer, bound[0], effort, within=bound[1]), list(bounds.items())
        )
        found = state.simulate([r[0].deployment for r in ranked if r])
        slow = {c.deployment.routing: over for c in found if (over := strain(state.search.problem, c)) > 1}
        bounds = {k: bounds[k] * max(AT_MOST_BY, MARGIN / over) for k, over in slow.items()}


def _best_first(ranked: Sequence[Sequence[Ranked]], most: int) -> list[Deployment]:
    """The best of every routing, then the best of all."""
    first = sorted((r[0] for r in ranked if r), key=lambda r: r.key)
    rest = sorted((x for r in ranked for x in r[1:]), key=lambda r: r.key)
    return [x.deployment for x in [*first, *rest][:most]]


def _climb(
    state: Refinement, simulations: int, routings: Sequence[int], light: Sequence[int], ceiling: Ceiling
) -> None:
    """Steps to better neighbours from the best candidates, until none helps or the budget is spent, of which those that
    the `ceiling` spares take their part: above it only steps down are taken.
    """
    standing, each = Standing(state.search.problem), starts_of_each(simulations)
    while (spent := len(state.seen) + len(ceiling.passed_over)) < simulations:
        if ceiling.suffices() or state.search.deadline.leaves_out("steps from the best deployments"):
            return
        if (here := standing.next_start(state.seen, each)) is None:
            return
        room = simulations - spent
        steps = [
            d
            for d in neighbours(state, here.deployment, routings, light)
            if d.key not in state.seen and ceiling.admits(d, here)
        ]
        ceiling.lower(state.simulate(steps[:room]))


def _trim(state: Refinement) -> bool:
    """Takes replicas from the best candidates while these keep the bounds, and tells whether any is cheaper then.

    Where a stage has dozens, a climb by single steps has spent its budget before it is where the bounds are kept.
    """
    problem = state.search.problem
    ordered = sorted(
        (c for c in state.seen.values() if within_limits(problem, c)), key=lambda c: rank(problem, c)
    )
    first = islice(best_of_each(ordered, 1), TRIMMED)
    found = [_trimmed(state, c) for c in first if most_alike(c.deployment) >= MANY]
    return bool(found) and min(rank(problem, c) for c in found) < rank(problem, ordered[0])


def _trimmed(state: Refinement, here: Candidate) -> Candidate:
    """`here` with the fewest replicas that keep the bounds: of all shapes alike, then of one after the other."""
    whole = here.deployment
    here = _fewest(state, here, SIXTEENTHS, lambda part: scaled(whole, part / SIXTEENTHS))
    for group in groups(whole):
        now = here.deployment
        here = _fewest(state, here, count_of(now, group), partial(with_count, now, group))
    return here


def _fewest(state: Refinement, here: Candidate, count: int, make: Callable[[int], Deployment]) -> Candidate:
    """The candidate of the least number that keeps the bounds, as those of larger ones do. `here` is that of
    `count`."""
    least = 0
    while count - least > 1 and not state.search.deadline.leaves_out("fewer replicas"):
        third = max(1, (count - least) // 3)
        tried = {n: make(n) for n in sorted({least + third, count - third})}
        by_key = {c.deployment.key: c for c in state.simulate(tried.values())}
        for n, each in tried.items():
            c = by_key.get(each.key)
            if c is not None and within_limits(state.search.problem, c):
                here, count = c, n
                break
            least = n
    return here


def _share_anew(state: Refinement) -> None:
    """The best candidate's unequal replicas get other shares while that helps, in small steps at last.

    A climb may have ended before.
    """
    problem = state.search.problem
    for ratios in (RATIOS, FINE):
        for _ in range(SHARED_ANEW):
            if state.search.deadline.leaves_out("other shares of unequal replicas"):
                return
            if (found := _best(problem, state.seen.values())) is None:
                return
            mixes = dict(found.deployment.mixes)
            steps = [
                deployment(found.deployment.routing, mixes | {s: mix})
                for s in mixes
                for mix in reshared(mixes[s], ratios)
            ]
            if all(d.key in state.seen for d in steps):
                break
            state.simulate(steps)


def _batch_anew(state: Refinement) -> None:
    """Engines of the best candidate take other numbers of tokens an iteration while that helps, and so do those of the
    best that would be better still but is too slow.
    """
    problem = state.search.problem
    best = _best(problem, state.seen.values())
    starts = [] if best is None else [best]
    if problem.objective.bounds:
        slow = [c for c in state.seen.values() if 1.0 < strain(problem, c) <= TOO_SLOW]
        first = min(slow, key=lambda c: rank(problem, c), default=None)
        if first is not None and (best is None or rank(problem, first) < rank(problem, best)):
            starts.append(first)
    for here in starts:
        _step_budgets(state, here)


def _step_budgets(state: Refinement, here: Candidate) -> None:
    """Steps from `here`. What does not gain enough is forgotten, so that no plan differs from the spec for little.

    What gains is faster, or, while bounds are broken, nearer to them.
    """
    problem = state.search.problem
    broken = strain(problem, here) > 1.0

    def measure(c: Candidate) -> float:
        return strain(problem, c) if broken else c.latency_s

    for step in range(BATCHED_ANEW):
        if state.search.deadline.leaves_out("other numbers of tokens an iteration"):
            return
        known = set(state.seen)
        budgets = other_budgets(state.search, here.deployment, few=step == 0)
        tried = state.simulate([*budgets, *other_drafts(state.search, here.deployment)])
        better = [c for c in tried if measure(c) <= measure(here) * (1 - GAIN)]
        for c in tried:
            if c not in better and c.deployment.key not in known:
                del state.seen[c.deployment.key]
        if not better:
            return
        here = min(better, key=measure)


def _best(problem: Problem, candidates: Iterable[Candidate]) -> Candidate | None:
    """Best of those that keep the bounds."""
    within = [c for c in candidates if within_limits(problem, c)]
    return min(within, key=lambda c: rank(problem, c), default=None)
