"""Deployments of whole nodes: every stage in its widest tensor parallelism, replicated.

Users start from such deployments (Cascadia figure 9, "uniform parallelism"). The options of a stage are thinned, and
hold for each latency the mix with the fewest GPUs only, so that counts of whole nodes may be missing among them: they
are looked at apart, and a plan is never worse than the best of them.
"""

import math

from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.deployment.options import Option
from cascadia.planner.refinement.state import Refinement
from cascadia.planner.tables.shapes import Shape

Menu = dict[int, list[Option]]


def whole_nodes(state: Refinement, routing: int) -> Menu:
    """Menu per demand of a routing and per pool: each number of its widest replicas that keeps up; empty where
    one has none.

    On a single pool, numbers that leave too little for the others are left out.
    """
    cluster = state.search.problem.cluster
    stages = list(state.menu(routing))
    if not stages:
        return {}
    part = state.most_gpus(len(stages))
    most = cluster.gpus if part is None else part
    known = {s: state.references.one(s, routing) for s in stages}
    menu = {
        s: [
            choice
            for p in cluster.pools
            for choice in _counts(demand, widest(demand.shapes, p.name), need, min(most, p.gpus))
        ]
        for s, (demand, need) in known.items()
    }
    if not all(menu.values()):
        return {}
    if len(cluster.pools) > 1:
        return menu
    least = sum(choices[0].gpus for choices in menu.values())
    left = {s: cluster.gpus - (least - choices[0].gpus) for s, choices in menu.items()}
    fitting = {s: [o for o in choices if o.gpus <= left[s]] for s, choices in menu.items()}
    return fitting if all(fitting.values()) else {}


def widest(shapes: tuple[Shape, ...], pool: str) -> int | None:
    """The position of the shape with the most tensor parallelism, and no deeper a pipeline than that needs."""
    mine = [s for s, shape in enumerate(shapes) if shape.pool == pool]
    return max(mine, key=lambda s: (shapes[s].tp, -shapes[s].pp), default=None)


def _counts(demand: Demand, shape: int | None, need: float, most_gpus: int) -> list[Option]:
    if shape is None:
        return []
    table, replica = demand.table, demand.shapes[shape]
    least = max(1, math.ceil(need * float(table.saturated[shape])))
    levels = (
        table.levels.searchsorted([n / need for n in range(least, most_gpus // replica.gpus + 1)], "right")
        - 1
    )
    bounds_s = table.latency_s[shape, levels.clip(0)].tolist()
    return [
        Option((Replicas(replica, n, float(n)),), bound_s) for n, bound_s in enumerate(bounds_s, start=least)
    ]
