"""Deployments that are sent nearly all that they sustain: the cheapest among what every search looks at, and the last
resort before a plan is refused.

Tables and the integer programs made of them know levels up to `STABLE_SHARE` of what a replica sustains, whole levels
only. What is sent more may hold all the same: the certificate of stability (`stability/certificate.py`) refuses above
capacity, not below it. So where nothing else is found, there is a second search with tables up to capacity; it starts
from the deployments that sustain the most, by covering in fractions of levels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.state import Refinement
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.throughput import (
    APART,
    cheapest_carrying,
    estimates,
    most_capable,
    most_sustaining,
)
from cascadia.planner.stability.certificate import OVERLOADED
from cascadia.planner.tables.tables import STABLE_SHARE, TableCache

Floats = NDArray[np.float64]

FACTORS = (1.0, 0.95, 0.95 / OVERLOADED)
"""Of today's rate, that deployments which just carry it sustain at `STABLE_SHARE` of capacity: stable by tables, sent
all that they sustain, and as much as a certificate allows."""
CHEAPEST, HIGHEST = 4, 6
"""So many routings get such deployments: those that need the least, or where quality is sought, of those that may be
sustained, from the best on."""

HOPELESS = 0.8
"""A routing that seems to sustain less than this part of today's rate is not looked at: how far tables of all requests
are from those of its own."""

ROUTINGS = 4
"""So many are looked at, those that seem to sustain the most first."""


def nearly_full(search: Search) -> Search:
    """The same search with tables up to capacity."""
    return replace(
        search, tables=TableCache(search.threads, 1.0, sustained=search.tables.sustained), memory={}
    )


def fullest(search: Search) -> Iterator[Deployment]:
    """Deployments that may just carry the traffic, most likely ones first; none where that is out of reach."""
    good = np.flatnonzero(allowed(search))
    if not len(good):
        return
    for routing, estimate in most_sustaining(search, good, most=ROUTINGS):
        if estimate < HOPELESS * search.tables.stable_share / STABLE_SHARE:
            return
        found = most_capable(search, routing)
        # What seems to be sustained goes up to a share of capacity, and the certificate up to a little above it.
        if found is not None and found[0] >= search.tables.stable_share / OVERLOADED:
            yield found[1]


def carried(search: Search, deployments: Iterable[Deployment]) -> bool:
    """Does one of these hold? Planning starts from them, and needs no further search to be known to find a plan."""
    state = Refinement(search, search.simulator, References(search))
    return any(state.certificate(d).holds for d in deployments)


def just_carrying(search: Search, usd_needed: Floats) -> list[Deployment]:
    """The cheapest deployments that replicas seem to carry at all, of routings that may be the best.

    Options and the integer program share a stage out in whole levels, so that few unequal replicas seem to carry less
    than they do, and know loads up to `STABLE_SHARE` only. `usd_needed` ($/h) is about what each routing needs.
    """
    nodes = tuple((pool.name, pool.nodes) for pool in search.problem.cluster.pools)
    known: dict[object, Deployment | None] = search.memory.setdefault("just carrying", {})
    found: list[Deployment] = []
    for routing in _worth_a_covering(search, usd_needed):
        for factor in FACTORS:
            if search.deadline.leaves_out("deployments that just carry the traffic"):
                return found
            if (key := (nodes, routing, factor)) not in known:
                known[key] = cheapest_carrying(search, routing, factor)
            if (d := known[key]) is not None:
                found.append(d)
    return found


def _worth_a_covering(search: Search, usd_needed: Floats) -> list[int]:
    """Routings at the bar: those that need the least, or for the goal `quality`, the best that may be sustained."""
    good = np.flatnonzero(allowed(search))
    if search.problem.objective.goal != "quality":
        cheapest = good[np.argsort(usd_needed[good], kind="stable")]
        return search.routings.first_apart(cheapest.tolist(), CHEAPEST, APART)
    likely = good[estimates(search, good) >= HOPELESS]
    best = likely[np.argsort(-search.routings.lower[likely], kind="stable")]
    return search.routings.first_apart(best.tolist(), HIGHEST, APART)
