"""Limits of a plan: each bound that it was made under, how near it is to that, and what a step away would give."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cascadia.domain.plan import Plan
from cascadia.report import words
from cascadia.report.data import QualityStep, ReportData
from cascadia.report.names import device, devices, printable
from cascadia.report.numbers import asked_for, lower_bound, percent, plural, rate, score, seconds, usd

NEAR_POINTS, NEAR = 0.5, 0.1
"""A bound binds where the plan is this near to it: in points of quality, and as a share of any other bound."""

WORTH = 0.03
"""A lower bar is told of where it gives so much more."""


class Limit(NamedTuple):
    """`binds`: the plan has no room left there."""

    name: str
    text: str
    binds: bool


def limits(data: ReportData) -> tuple[Limit, ...]:
    """Limits of the plan, those that bind first."""
    plan = data.plan
    found = [
        *_quality(plan, data.quality_sensitivity),
        *_levels(plan),
        _gpus(plan),
        *_budget(plan),
        *_rate(plan),
    ]
    return tuple(sorted(found, key=lambda limit: not limit.binds))


def _quality(plan: Plan, steps: Sequence[QualityStep]) -> Iterable[Limit]:
    bar, lower = plan.objective.quality_min, plan.predicted.quality.lower
    if bar is None:
        return
    text = f"{lower_bound(lower, bar)} is sure where {asked_for(bar)} is asked for"
    easier = [s for s in steps if s.quality_min < bar - 1e-9 and s.latency_s == s.latency_s]
    if easier:
        text += _at_less(plan, max(easier, key=lambda s: s.quality_min))
    yield Limit("Quality", text, lower - bar < NEAR_POINTS)


def _at_less(plan: Plan, step: QualityStep) -> str:
    """Words on what a lower bar would give, where a quick look found that it gives something."""
    predicted, bar = plan.predicted, score(step.quality_min)
    if plan.objective.goal == "cost":
        better = step.usd_per_1k_requests < (1 - WORTH) * predicted.usd_per_1k_requests
        gives = f"{usd(step.usd_per_1k_requests)} per 1,000 requests"
    else:
        better = step.latency_s < (1 - WORTH) * predicted.objective_s
        gives = f"{words.quantile_name(plan)} {seconds(step.latency_s)}"
    return f"; at {bar} a quick look finds {gives}" if better else ""


def _levels(plan: Plan) -> Iterable[Limit]:
    told = {(level.metric, level.quantile): level.reached_s for level in plan.predicted.levels}
    own = ("e2e", plan.objective.quantile)
    for bound in plan.objective.bounds:
        key = bound.metric, bound.quantile
        reached = told.get(key, plan.predicted.objective_s if key == own else None)
        if reached is not None:
            text = f"{bound.name} {seconds(reached)} where {seconds(bound.max_s)} is allowed"
            yield Limit("Latency", text, reached > (1 - NEAR) * bound.max_s)


def _gpus(plan: Plan) -> Limit:
    used, there = plan.gpus, plan.cluster.gpus
    what, name = device(plan.cluster.pools), devices(plan.cluster.pools)
    if used == there:
        return Limit(name, f"all {plural(there, what)} are in use", True)
    return Limit(name, f"{used:,} of {plural(there, what)} in use", False)


def _budget(plan: Plan) -> Iterable[Limit]:
    budget = plan.cluster.budget_usd_per_hour
    if budget is None:
        return
    pools = plan.cluster.pools
    rented = sum((pool.rented or 0) * pool.usd_per_unit_hour for pool in pools)
    least = min(pool.usd_per_unit_hour for pool in pools)
    yield Limit("Budget", f"{usd(rented)}/h of {usd(budget)}/h", rented + least > budget)


def _rate(plan: Plan) -> Iterable[Limit]:
    carried = plan.headroom
    if carried is None:
        return
    loads = [(stage.load, stage.name) for stage in plan.predicted.stages if stage.load is not None]
    busiest = max(loads, default=None)
    text = f"{rate(plan.predicted.rate_rps)}{words.headroom(plan)}"
    if busiest is not None:
        text += (
            f"; the busiest stage is {printable(busiest[1])}, at {percent(busiest[0])} of what it sustains"
        )
    yield Limit("Rate", text, carried < 1 + NEAR)
