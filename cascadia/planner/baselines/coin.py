"""A coin as a baseline: a mixture of two stand-alone models, drawn for each request without looking at it.

It is what no skill at all comes to: whoever can deploy two models can have every quality between theirs at a cost
between theirs, by sending a share of the requests, drawn at random, to the better one. A gate, a judge or a pre-router
is worth what it does beyond that. Nothing is judged and no request runs twice.

With share x of the requests at model b, the rest at a, quality is (1 - x) q_a + x q_b exactly; so is its bound, since
bounds of both models hold at once: lower >= (1 - x) lower_a + x lower_b. GPUs are searched for as for every system.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Judge
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.baselines.single_model import Entry, nothing, searched
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, SKIPS_NONE, Routings
from cascadia.planner.search.context import Search, allowed, restricted
from cascadia.planner.tables.tables import TableCache

Floats = NDArray[np.float64]

NAME = "coin"
SHARES = 50
"""Shares of a pair that are tried: every 2 %, or of a table of fewer prompts one of them more each."""


def coin(search: Search, effort: Effort, *, with_rate: bool = True) -> Entry:
    """The best mixture of two models that holds the bar; `with_rate`: also the largest rate that one sustains."""
    if len(search.problem.stages) < 2:
        return nothing(NAME, "there is but one model")
    mixed = tossed(search)
    if not len(mixed.routings):
        return nothing(NAME, "fewer than two models are worth deploying alone")
    mixed = restricted(mixed, _lightest(mixed))
    found = searched(NAME, mixed, effort, with_rate=with_rate)
    # Nothing is judged: what stands for a judge in the simulation is free and takes no time.
    return found if found.run is None else replace(found, run=replace(found.run, verdicts=None))


def tossed(search: Search) -> Search:
    """The same search with mixtures for routings. The toss of each prompt takes the place of what was foreseen of it:
    whoever it falls below a level for is not asked the first model of the pair."""
    problem = search.problem
    prompts = len(problem.quality)
    toss = np.random.default_rng(problem.seed + 3).permutation(prompts)
    level = (toss + 0.5) / prompts * 100.0
    table = replace(problem.quality, foreseen=np.repeat(level[None, :], len(problem.stages), axis=0))
    return replace(
        search,
        problem=replace(problem, quality=table, judge=Judge(kind=problem.judge.kind, placement="router")),
        routings=_mixtures(search, level),
        shapes={s: shapes for s, shapes in search.shapes.items() if s != JUDGE},
        verdict_s=0.0,
        tables=TableCache(search.threads),
        _decisions={},
    )


def _lightest(search: Search) -> Routings:
    """Mixture of each pair with the least of the later model that holds the bar; all of them where quality
    itself is to be large, and those of most quality where none holds the bar.
    """
    routings = search.routings
    if search.problem.objective.goal == "quality":
        return routings
    good = allowed(search)
    pairs = np.unique(routings.deployed[good], axis=0)
    kept = [int(np.flatnonzero(good & (routings.deployed == pair).all(axis=1))[0]) for pair in pairs]
    return routings.take(np.array(kept or [int(routings.lower.argmax())]))


def _mixtures(search: Search, level: Floats) -> Routings:
    """Mixtures of every pair of models, in even steps of the share that the later one gets."""
    alone = {
        int(row.argmax()): k for k, row in enumerate(search.routings.deployed) if np.count_nonzero(row) == 1
    }
    stages = len(search.problem.stages)
    shares = max(min(SHARES, len(level)), 2)
    every = [(a, b, at / shares) for a, b in combinations(sorted(alone), 2) for at in range(1, shares)]
    thresholds = np.full((len(every), stages - 1), ACCEPTS_NONE)
    skip_below = np.full((len(every), stages - 1), SKIPS_NONE)
    deployed = np.zeros((len(every), stages), dtype=bool)
    reached = np.zeros((len(every), stages))
    ends = np.zeros((2, len(every), 2))
    share = np.array([x for _, _, x in every])
    for k, (a, b, x) in enumerate(every):
        deployed[k, [a, b]] = True
        thresholds[k, a] = ACCEPTS_ALL
        if b < stages - 1:
            thresholds[k, b] = ACCEPTS_ALL
        skip_below[k, a] = 100.0 * x
        later = float((level < 100.0 * x).mean())
        reached[k, [a, b]] = 1.0 - later, later
        for end, stage in enumerate((a, b)):
            ends[end, k] = search.routings.mean[alone[stage]], search.routings.lower[alone[stage]]
    mixed = (1.0 - share)[:, None] * ends[0] + share[:, None] * ends[1]
    return Routings(thresholds, deployed, reached, mean=mixed[:, 0], lower=mixed[:, 1], skip_below=skip_below)
