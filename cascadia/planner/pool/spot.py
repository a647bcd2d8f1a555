"""Pools with a spot price are planned for both ways, since being allowed to pay less must not make a plan worse.

By spot a GPU costs less for the time that it is there. Who has few nodes and money to spare serves more on demand
nevertheless, and so does who needs one whole node, or two that are there half of the time.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Protocol, TypeVar

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import Infeasible, OutOfTime
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan
from cascadia.planner.stability.headroom import PRECISION

EVERY = 2
"""Of more spot pools than these not every combination is planned for: each alone on demand, and all."""


class Planned(Protocol):
    @property
    def plan(self) -> Plan: ...
    @property
    def fastest_s(self) -> float: ...


Found = TypeVar("Found", bound=Planned)


def ways(cluster: Cluster) -> Iterator[Cluster]:
    """`cluster` by its spot prices, then with some of these pools on demand."""
    yield cluster
    spot = [pool.name for pool in cluster.pools if pool.there < 1.0]
    for count in range(1, len(spot) + 1):
        if len(spot) <= EVERY or count in (1, len(spot)):
            for names in combinations(spot, count):
                yield replace(cluster, pools=tuple(_on_demand(pool, names) for pool in cluster.pools))


def _on_demand(pool: Pool, names: tuple[str, ...]) -> Pool:
    return replace(pool, spot=None) if pool.name in names else pool


def best_way(
    cluster: Cluster, objective: Objective, deadline: Deadline, make: Callable[[Cluster, Deadline], Found]
) -> Found:
    """The best plan of all ways. Raises what the first way does where none has any."""
    every = list(ways(cluster))
    found: list[Found] = []
    refused: list[Infeasible | OutOfTime] = []
    for at, way in enumerate(every):
        if at and deadline.leaves_out("spot pools on demand"):
            break
        try:
            found.append(make(way, deadline.part(1 / (len(every) - at)) if len(every) > 1 else deadline))
        except (Infeasible, OutOfTime) as why:
            refused.append(why)
    if not found:
        raise refused[0]
    return min(_as_good(objective, found), key=lambda one: one.plan.predicted.usd_per_hour)


def _as_good(objective: Objective, found: list[Found]) -> list[Found]:
    """Plans that are as good as the best, as far as the objective tells; what these cost then decides."""
    if objective.goal == "cost":
        return found
    if objective.goal == "rate":
        most = max(one.plan.predicted.rate_rps for one in found)
        return [one for one in found if one.plan.predicted.rate_rps >= most * (1 - PRECISION)]
    if objective.goal == "quality":
        lower = max(one.plan.predicted.quality.lower for one in found)
        return [one for one in found if one.plan.predicted.quality.lower >= lower - 1e-9]
    limit_s = min(one.fastest_s for one in found) * (1 + objective.within)
    # The fastest found need not be what a plan has in the end (`within`, gears): one at least must be left.
    limit_s = max(limit_s, min(one.plan.predicted.objective_s for one in found))
    return [one for one in found if one.plan.predicted.objective_s <= limit_s]


def on_demand_notes(asked: Cluster, planned: Cluster) -> list[str]:
    """Sentences on pools whose spot price was left alone: no plan by it that was found is better, in whatever time."""
    names = {pool.name for pool in planned.pools if pool.spot is None}
    return [
        f"{pool.name} is rented on demand: at its spot price it would be there {pool.there:.1%} of the time, and"
        " no better plan was found so"
        for pool in asked.pools
        if pool.there < 1.0 and pool.name in names
    ]
