"""Notes on a plan's gears, or why it has none."""

from collections.abc import Iterator
from math import inf

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.domain.workload import Floats
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.gears.candidates import carried_rps
from cascadia.planner.gears.ladder import FoundLadder, Goals, load_of
from cascadia.planner.search.context import Search

LOWER = 5.0
"""A floor of so many points less is told as an example."""

WORTHWHILE = 1.1
"""It is told where it carries at least so many times as much."""


def gear_notes(
    search: Search,
    deployment: Deployment,
    goals: Goals,
    found: FoundLadder | None,
    alone: Plan,
    own_latency_s: Floats,
    *,
    dearer_usd: float,
) -> Iterator[str]:
    """`alone`: the plan with its own setting, which took `own_latency_s`. `dearer_usd`: what an hour costs of the best
    plan of one setting."""
    if alone.mixture is not None:
        yield "gears are off: the plan mixes two routings by shares, and a gear is one routing"
        return
    if load_of(search, own_latency_s) is None:
        yield (
            f"gears are off: the trace ({len(search.problem.workload):,} requests, "
            f"{float(search.problem.workload.arrival_s[-1]):.3g} s) is too short beside its latencies "
            f"({float(np.mean(own_latency_s)):.3g} s on average) to know how its load swings"
        )
        return
    if found is None:
        yield "gears are off: on these replicas no other setting serves the trace better, whatever the load"
    if found is not None and dearer_usd > deployment.usd_per_hour + found.elsewhere_usd:
        tokens = f" and ${found.elsewhere_usd:,.2f}/h of tokens" if found.elsewhere_usd else ""
        yield (
            f"on gears replicas for ${deployment.usd_per_hour:,.2f}/h{tokens} keep the bounds; with one setting the"
            f" cheapest found took ${dearer_usd:,.2f}/h"
        )
    yield from _floor(search, deployment, goals)


def _floor(search: Search, deployment: Deployment, goals: Goals) -> Iterator[str]:
    """Note on what it costs under load that nothing goes below the bar."""
    if search.problem.quality_floor is not None or goals.bar <= 0:
        return
    here = carried_rps(search, deployment, goals.floor)
    floor = max(goals.floor - LOWER, 0.0)
    there = carried_rps(search, deployment, floor)
    if inf > there >= WORTHWHILE * here > 0:
        yield (
            f"nothing goes below quality_min under load: so these replicas carry up to {here:.3g} requests/s; with"
            f" under_load: {{quality_floor: {floor:.3g}}} they would carry {there:.3g}, and quality_min would hold for"
            " all together"
        )
