"""Rivals: what others would deploy, as a plan and its report look at them: quickly, and once for both.

A plan starts from these deployments among others, so that it is at least level with each by construction.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.baselines.cascadeserve import cascadeserve
from cascadia.planner.baselines.coin import coin
from cascadia.planner.baselines.single_model import Entry, stand_alone
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.measures import latencies_s
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.refinement.refine import EFFORT, Effort
from cascadia.planner.search.context import Search, allowed, restricted

CASCADESERVE_ROUTINGS = 1
FEW_STEPS = Effort(simulated_requests=60_000, fewest_simulations=8)
"""`cascadia compare` searches CascadeServe as long as a plan."""

QUICKLY = ", a quick look"
THEIRS = "what others would deploy"


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """Another system's latencies (n), and where it stands."""

    name: str
    latency_s: NDArray[np.float64]
    quantile_s: float
    quality_mean: float
    quality_lower: float
    usd_per_hour: float


def rivals(search: Search) -> list[Callable[[], Rival | None]]:
    """Ways to make each: every model alone, whatever its quality; the coin and CascadeServe at the plan's bar. None
    where a system has no answer."""

    def rival(name: str, make: Callable[[], Entry]) -> Rival | None:
        return _rival(search, name, make())

    return [
        *(
            partial(rival, f"{stage.name} alone", partial(alone, search, s))
            for s, stage in enumerate(search.problem.stages)
        ),
        partial(rival, "coin", partial(coin, search, EFFORT, with_rate=False)),
        partial(rival, f"CascadeServe{QUICKLY}", partial(served, search)),
    ]


def _rival(search: Search, name: str, found: Entry) -> Rival | None:
    if found.best is None or found.run is None:
        return None
    latency = latencies_s(found.run)
    at = quantile_s(latency, search.quantile)
    return Rival(name, latency, at, found.quality_mean, found.quality_lower, found.best.usd_per_hour)


def alone(search: Search, stage: int) -> Entry:
    """One model for all requests, whatever its quality."""
    free = 0.0 if search.problem.objective.quality_min is not None else None
    objective = replace(search.problem.objective, quality_min=free)
    whatever = replace(search, problem=replace(search.problem, objective=objective))
    return _known(
        search, ("alone", stage, objective), lambda: stand_alone(whatever, stage, EFFORT, with_rate=False)
    )


def served(search: Search) -> Entry:
    """CascadeServe at the plan's bar. It has a memory of its own, so that neither it nor what is searched beside it
    depends on what the other has simulated by then."""
    apart = restricted(search, search.routings.plain)
    return _known(
        search,
        ("served", search.problem.objective),
        lambda: cascadeserve(apart, FEW_STEPS, most_routings=CASCADESERVE_ROUTINGS, with_rate=False),
    )


def their_deployments(search: Search) -> list[Deployment]:
    """CascadeServe's, and that of each model which keeps the bar alone."""
    deployed = search.routings.deployed[allowed(search)]
    stages = np.flatnonzero(deployed[deployed.sum(axis=1) == 1].any(axis=0)).tolist()
    found = [served(search), *(alone(search, stage) for stage in stages)]
    return [entry.best.deployment for entry in found if entry.best is not None]


def _known(search: Search, key: object, make: Callable[[], Entry]) -> Entry:
    known: dict[object, Entry] = search.memory.setdefault("rivals", {})
    if key not in known:
        known[key] = make()
    return known[key]
