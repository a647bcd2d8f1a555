"""The search with mixtures of routings (`mixtures.py`), after that without.

Plans without mixtures are searched for first. A mixture replaces the best of them only where it is better by the
objective, so that nobody is worse off for there being mixtures. As in `supersets.py`, each part of the cluster is
searched, with mixtures of its own prices, so that more pools to choose from cost nothing. Where quality is sought,
mixtures of any are looked at, not only those just above the best routing's: the best that keeps the bounds may be far
above, since routings of few levels are far apart.

Where no routing keeps the bounds a mixture still may (`where_none`): its requests go where single routings send none.
Then those that seem to sustain the most are asked too, whatever they cost.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cascadia.domain.objective import Objective
from cascadia.domain.plan import ASKS_NONE
from cascadia.domain.quality import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.carried_on import beside
from cascadia.planner.refinement.nearly_full import HOPELESS, fullest
from cascadia.planner.refinement.refine import Candidate, Effort, rank, within_limits
from cascadia.planner.refinement.supersets import Found, parts, searched
from cascadia.planner.routing.mixtures import bounded, coins
from cascadia.planner.routing.routings import Bools, Ints, Routings, with_mixtures
from cascadia.planner.search.bilevel import Solver
from cascadia.planner.search.context import Search, on_pools, restricted
from cascadia.planner.search.elsewhere import about_usd_per_hour
from cascadia.planner.search.stage_usd import stage_usd, verdict_usd
from cascadia.planner.search.throughput import estimates

MOST = 4
"""Mixtures that are searched, the cheapest of as many chords."""
LEVELS, CHORDS = 12, 2
"""Where quality is to be large, mixtures of any share on so many chords for each of so many levels of it."""
WORTHWHILE = 0.02
"""A mixture must save at least this part of what the cheapest routing costs."""
RISES = 4
"""So often better mixtures are looked for where quality is to be large and no routing keeps the bounds."""
MIXTURES = "mixtures of two routings"
MORE = 1e-4
"""Points of quality that are more than rounding: bounds are in single precision, and a mixture of routings that are
equally good, which needs the models of both, may have one that is higher by its last digit."""
STARTS = 3
"""Of the best deployments of routings, so many are looked at for each mixture..."""
STARTED = 16
"""...of so many mixtures, spread over their quality."""


def with_mixed(
    found: Found,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
) -> Found:
    """`found`, or where a mixture is better, that, among what was found: routings keep their numbers."""
    search, best = found.search, found.best
    assert best is not None
    chosen = found
    least = least_quality(search.problem.objective, best.quality_lower)
    for part in _each_part(search):
        # Whoever is offered this part alone, asks for tighter bounds, or seeks the cheapest within a bound, gets what
        # `where_none` finds: so whoever is offered more, asks for less, or seeks the fastest, is not worse off.
        mixed = _capable_of_better(part, least, chosen)
        if mixed is None or search.deadline.leaves_out(MIXTURES):
            continue
        progress(MIXTURES)
        only = restricted(part, mixed)
        starts = [*fullest(only), *_starts(only, found)]
        chosen = _better(chosen, found, mixed, searched(only, solver_of, effort, progress, starts))
    return chosen


def _capable_of_better(part: Search, least: float, chosen: Found) -> Routings | None:
    """Those of `capable` that may be better than what was `chosen`: where cost counts, what may cost less."""
    assert chosen.best is not None
    cost = part.problem.objective.goal == "cost"
    return capable(part, least, below_usd=chosen.best.usd_per_hour if cost else np.inf)


def where_none(
    found: Found,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
) -> Found:
    """Mixtures where none of the routings in `found` keeps the bounds: the best of those that do, if any does."""
    problem, chosen = found.search.problem, found
    for _ in range(RISES if problem.objective.goal == "quality" else 1):
        reached = 0.0 if chosen.best is None else chosen.best.quality_lower
        was = chosen
        for part in _each_part(found.search):
            mixed = capable(part, least_quality(problem.objective, reached))
            if mixed is None or found.search.deadline.leaves_out(MIXTURES):
                continue
            progress(MIXTURES)
            only = restricted(part, mixed)
            one = searched(only, solver_of, effort, progress, list(fullest(only)))
            chosen = _better(chosen, found, mixed, one)
        if chosen is was:
            break
    return chosen


def _each_part(search: Search) -> Iterator[Search]:
    for pools in parts(search.problem.cluster):
        if (part := on_pools(search, pools)) is not None:
            yield part


def _lies_on(part: Search, d: Deployment) -> bool:
    pools = {pool.name for pool in part.problem.cluster.pools}
    return all(r.shape.pool in pools for _, mix in d.mixes for r in mix)


def _better(chosen: Found, found: Found, mixed: Routings, one: Found) -> Found:
    """The better of `chosen` and of what the search `one` of mixtures found, which is told among `found`."""
    problem, best = found.search.problem, chosen.best
    if one.best is None or (best is not None and rank(problem, one.best) >= rank(problem, best)):
        return chosen
    return _among(found, mixed, one)


def capable(search: Search, least: float, *, below_usd: float = np.inf) -> Routings | None:
    """The cheapest mixtures of at least that quality, with and without a judge, and those that seem to sustain the
    most, of all that seem to sustain today's rate or nearly; of these, what may cost less than `below_usd` an hour.
    None where none does.

    Where quality is sought, all on the chords that are such at some level of it.
    """
    problem = search.problem
    quality = problem.objective.goal == "quality"
    found = _around(search, least, spread=quality)
    if found is None:
        return None
    mixed, chord = found
    only = restricted(search, mixed)
    seems = estimates(only, np.arange(len(mixed)))
    good = np.flatnonzero((mixed.lower >= least) & (seems >= HOPELESS))
    cost = _cost(search, mixed)
    if quality:
        promising = [k for key in (cost, -seems) for k in _all_the_way_up(good, key, mixed.lower, chord)]
        on_them = good[np.isin(chord[good], promising)]
        return mixed.take(on_them) if len(on_them) else None
    cheapest = good[np.argsort(cost[good], kind="stable")]
    fullest_ = good[np.argsort(-seems[good], kind="stable")]
    # A coin between models waits for no verdict, and so may be the fastest though another is cheaper. Whose turn it is
    # depends on which of the two most requests go by: who asks for less quality has the turns of who asks for more too.
    tossed = cheapest[~mixed.judged(cheapest).any(axis=1)]
    larger = tossed[_mostly_larger(mixed, tossed)]
    chosen = dict.fromkeys(
        k for order in (cheapest, fullest_, tossed, larger) for k in _one_of_each_chord(order, chord)
    )
    few = [k for k in chosen if cost[k] < below_usd]
    return mixed.take(np.array(few)) if few else None


def _around(search: Search, least: float, *, spread: bool) -> tuple[Routings, Ints] | None:
    """Mixtures around `least` as of `bounded`; where that has none, coins. A table that foresees has another way to
    part requests without a judge.
    """
    problem = search.problem
    found = bounded(problem.quality, least, problem.confidence, problem.seed, spread=spread)
    return coins(search.routings) if found is None and problem.quality.foreseen is None else found


def _mostly_larger(mixed: Routings, tossed: Ints) -> Bools:
    """(k): do most requests go by the larger of the two models, past the smaller?"""
    assert mixed.skip_below is not None
    return np.asarray((mixed.skip_below[tossed] >= ASKS_NONE).any(axis=1))


def _all_the_way_up(good: Ints, key: Floats, lower: Floats, chord: Ints) -> Iterator[int]:
    """Chords of the least `key` beyond each of some levels of quality, from the least to the most of `good`."""
    order = good[np.argsort(key[good], kind="stable")]
    lowest, highest = lower[good].min(initial=100.0), lower[good].max(initial=0.0)
    for level in np.linspace(lowest, highest, LEVELS, endpoint=False):
        yield from chord[_one_of_each_chord(order[lower[order] >= level], chord)[:CHORDS]].tolist()


def _one_of_each_chord(order: Ints, chord: Ints) -> list[int]:
    """The first few of `order`, the first of each chord."""
    first = np.unique(chord[order], return_index=True)[1]
    few: list[int] = order[np.sort(first)][:MOST].tolist()
    return few


def mixtures(search: Search, least: float) -> Routings | None:
    """The cheapest mixtures whose quality is at least `least`; None where none saves anything beside the search's own.

    Costs are of all requests, each stage on its cheapest replicas.
    """
    found = _around(search, least, spread=False)
    if found is None:
        return None
    mixed, chord = found
    cost = _cost(search, mixed)
    good = search.routings.lower >= least
    known = _cost(search, search.routings)[good].min(initial=np.inf)
    order = np.argsort(cost, kind="stable")
    order = order[(mixed.lower[order] >= least) & (cost[order] < (1 - WORTHWHILE) * known)]
    chosen = _one_of_each_chord(order, chord)
    return mixed.take(np.array(chosen)) if chosen else None


def least_quality(objective: Objective, found: float) -> float:
    """Quality that a mixture must reach: the bar, or where quality itself is to be large, more than was `found`
    without.
    """
    least = objective.quality_min or 0.0
    return max(least, found + MORE) if objective.goal == "quality" else least


def _starts(only: Search, found: Found) -> Iterator[Deployment]:
    """Deployments of all that a mixture needs and of no more, which kept the bounds under a routing, best first."""
    problem = only.problem
    ranked = sorted(
        (c for c in found.candidates if within_limits(problem, c)), key=lambda c: rank(problem, c)
    )
    here = [c.deployment for c in ranked if _lies_on(only, c.deployment)]
    by_quality = only.routings.lower.argsort(kind="stable")
    some = np.linspace(0, len(by_quality) - 1, min(STARTED, len(by_quality))).astype(np.int64)
    for k in by_quality[some].tolist():
        needed = set(only.on_gpus(k))
        if only.self_hosted_judge and only.asks(k):
            needed.add(JUDGE)
        fit = [d for d in here if {stage for stage, _ in d.mixes} == needed]
        yield from (replace(d, routing=k) for d in fit[:STARTS])


def _among(found: Found, mixed: Routings, one: Found) -> Found:
    """Findings of mixtures `one`, numbered after the routings that are `found`'s."""
    assert one.best is not None
    first = len(found.search.routings)

    def numbered(c: Candidate) -> Candidate:
        return replace(c, deployment=replace(c.deployment, routing=first + c.deployment.routing))

    here = beside(found, one.best.deployment, with_mixtures(found.search.routings, mixed))
    candidates = (*found.candidates, *(numbered(c) for c in one.candidates))
    return replace(here, best=numbered(one.best), candidates=candidates)


def _cost(search: Search, routings: Routings) -> Floats:
    """Dollars an hour of each, had every stage just what its requests take of its cheapest replicas."""
    usd = stage_usd(search)
    of_stages = np.array([usd.get(s, 0.0) for s in range(len(search.problem.stages))])
    verdicts = routings.verdicts(np.arange(len(routings))).sum(axis=1)
    apis = about_usd_per_hour(restricted(search, routings), np.arange(len(routings)))
    return np.asarray(routings.reached @ of_stages + verdicts * verdict_usd(search, usd) + apis)
