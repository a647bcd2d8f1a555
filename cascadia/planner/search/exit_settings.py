"""Settings of exits that are worth a search of their own: the cheapest that keep the bar, by what their loads cost.

Bounds hold for all routings over points together (`routing.guarantee`), as if there were one stage a point. What may
be missed is shared out: routings without exits keep all of theirs, so that there being exits costs them nothing, and
those with exits have `SPENT_ON_EXITS` of it beside (Bonferroni). The promise for a plan with exits is so one of
1 - (1 + SPENT_ON_EXITS) (1 - confidence).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cascadia.domain.points import Points
from cascadia.domain.problem import Problem, Uncertified
from cascadia.domain.quality import Floats
from cascadia.planner.routing.dominance import non_dominated
from cascadia.planner.routing.frontier import all_routings
from cascadia.planner.routing.guarantee import CONFIDENCE_MAX, lower_bounds
from cascadia.planner.routing.points import Setting, folded, over_points
from cascadia.planner.routing.routings import ACCEPTS_NONE, Bools, Ints, Routings, outcomes, thin
from cascadia.planner.search.context import Search
from cascadia.planner.search.stage_usd import stage_usd
from cascadia.planner.tables.loads import PREFILL_IS_CHEAPER, verdict_reads, verdicts_each

SPENT_ON_EXITS = 0.2
MOST = 3
"""Settings that are searched."""
APART = 0.05
"""Two of them differ by so much of the requests at some point."""
MAX_ROUTINGS = 2000
VECTORS = 1_280_000
"""Vectors of thresholds that are looked at, over all subsets of points."""


class Set(NamedTuple):
    """`problem` with the stages as `setting` leaves them, and the `routings` that it may have."""

    setting: Setting
    problem: Problem
    routings: Routings


def exit_settings(search: Search, least: float) -> Iterator[Set]:
    """Settings with which a quality of `least` is reached, the cheapest first; none where nobody can be bounded."""
    problem = search.problem
    confidence = 1.0 - SPENT_ON_EXITS * (1.0 - problem.confidence)
    if problem.points is None or confidence > CONFIDENCE_MAX + 1e-12:
        return
    points, seed = problem.points, problem.seed
    every = thin(_all(points), MAX_ROUTINGS)
    lower, _ = lower_bounds(points.table, every, min(confidence, CONFIDENCE_MAX), seed)
    exits = every.deployed[:, list(points.exits)].any(axis=1)
    uses = np.flatnonzero((lower >= least) & exits & _thinks_on(points, every))
    cost = _cost(search, points, every)
    order = uses[np.argsort(cost[uses], kind="stable")]
    seen: set[Setting] = set()
    for k in every.first_apart(order.tolist(), MOST, APART):
        setting = Setting.of(points, every, k)
        if setting not in seen:
            seen.add(setting)
            exiting = under(problem, setting)
            found = _bounded(problem, setting, min(confidence, CONFIDENCE_MAX))
            yield Set(setting, exiting, replace(found, tries=tries(exiting)))


def under(problem: Problem, setting: Setting) -> Problem:
    """`problem` whose stages answer as `setting` has them; lengths follow the table's, prompt by prompt.

    Where exits are certified while they serve, some requests are drawn as evidence, in the state before too.
    """
    assert problem.points is not None
    shadow = 0.0 if problem.exits is None else problem.exits.shadow
    table, w = folded(problem.points, setting, shadow), problem.workload
    wrote, first = table.as_left(w.output_tokens, w.row, problem.seed), None
    if problem.exits is not None:
        plain = replace(
            folded(problem.points, _shut(setting)),
            drawn_tokens=table.drawn_tokens,
            drawn_verdicts=table.drawn_verdicts,
            shadow=shadow,
        )
        whole = plain.as_left(w.output_tokens, w.row, problem.seed)
        first = Uncertified(plain, whole, problem.objective)
    return replace(
        problem,
        quality=table,
        workload=replace(w, output_tokens=wrote, drawn=table.drawn(w.row, problem.seed)),
        points=None,
        uncertified=first,
    )


def tries(problem: Problem) -> Floats:
    """(S): what verdicts on trials alone read at each stage, beside those at a gate there."""
    every = np.ones((len(problem.stages), len(problem.workload)), np.bool_)
    alone, gated = (verdict_reads(problem, of_all).sum(axis=1) for of_all in (~every, every))
    asked = verdicts_each(problem, ~every).any(axis=1)
    return np.asarray(np.where(asked, alone / np.maximum(gated, 1), 0.0), np.float64)


def _shut(setting: Setting) -> Setting:
    """`setting` before anything is certified. Behind a last exit nobody thinks on, certified or not."""
    return Setting((ACCEPTS_NONE,) * len(setting.levels), setting.ends)


def _all(points: Points) -> Routings:
    """Routings over points that none beats at their last gate."""
    limit = max(200, VECTORS >> len(points.stage))
    return all_routings(points.table, exact_up_to=limit, thinned_to=limit, keep_worse=False)


def _bounded(problem: Problem, setting: Setting, confidence: float) -> Routings:
    """Routings under `setting` that none beats, with their bounds among all routings over points; where exits are
    certified first, such that hold before as well.
    """
    assert problem.points is not None
    points, seed = problem.points, problem.seed
    table = folded(points, setting)
    found = thin(all_routings(table, keep_worse=False), MAX_ROUTINGS)
    lower, _ = lower_bounds(points.table, over_points(points, found, setting), confidence, seed)
    bounded = replace(found, lower=np.minimum(lower, found.mean))
    if problem.exits is not None:
        shut = _shut(setting)
        mean = outcomes(folded(points, shut), found).mean(axis=1, dtype=np.float64)
        before = replace(over_points(points, found, shut), mean=mean)
        lower, _ = lower_bounds(points.table, before, confidence, seed)
        bounded = replace(bounded, lower=np.minimum(bounded.lower, lower))
    order = np.argsort(bounded.deployed.sum(axis=1), kind="stable")
    kept: Ints = non_dominated(bounded.reached[order], np.rint(bounded.lower[order] * 1e9).astype(np.int64))
    return bounded.take(order[kept])


def _thinks_on(points: Points, routings: Routings) -> Bools:
    """(k): which think to the end behind budgets: what is foreseen of an answer is no score that a gate could have."""
    on = np.ones(len(routings), np.bool_)
    for row in points.budgets:
        on &= ~routings.deployed[:, row] | routings.deployed[:, points.rows(points.stage[row])[-1]]
    return on


def _cost(search: Search, points: Points, routings: Routings) -> Floats:
    """Dollars an hour (k) of each, had every stage just what its requests take of its cheapest replicas."""
    usd, plain = stage_usd(search), search.problem.quality
    tokens = _tokens(points, routings)
    cost = np.zeros(len(routings))
    for stage in range(points.stages):
        api = search.problem.stages[stage].external
        read, wrote = float(plain.input_tokens[stage].mean()), float(plain.output_tokens[stage].mean())
        whole = wrote + read / PREFILL_IS_CHEAPER
        at_all = (
            usd.get(stage, 0.0)
            if api is None
            else 3600 * search.problem.workload.rate_rps * api.usd(read, wrote)
        )
        cost += tokens[:, stage] / whole * at_all
    return cost


def _tokens(points: Points, routings: Routings) -> Floats:
    """(k, S): tokens a request that each stage works on, those read counted as `PREFILL_IS_CHEAPER`."""
    table, k = points.table, len(routings)
    found = np.zeros((k, points.stages))
    before, begun = np.zeros(k), np.zeros(k, dtype=np.bool_)
    for row, stage in enumerate(points.stage):
        if row == points.rows(stage)[0]:
            before, begun = np.zeros(k), np.zeros(k, dtype=np.bool_)
        used, wrote = routings.deployed[:, row], float(table.output_tokens[row].mean())
        read = np.where(begun, 0.0, float(table.input_tokens[row].mean()) / PREFILL_IS_CHEAPER)
        found[:, stage] += np.where(used, routings.reached[:, row] * (wrote + read - before), 0.0)
        trial = np.where(points.tries(row), points.trial_tokens[row], 0.0)
        before = np.where(used, wrote - float(trial.mean()), before)
        begun |= used
    return found
