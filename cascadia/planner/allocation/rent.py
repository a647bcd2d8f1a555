"""Rows of an integer program that rent whole nodes within a budget (Kairos, section 5.2: "the cost budget").

Variables r[p], whole nodes of pool p; given w, the packing weights of a replica on one node, and c[p], a node's price.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulp

from cascadia.domain.cluster import Cluster
from cascadia.planner.tables.packing import packing_rows
from cascadia.planner.tables.shapes import Shape


@dataclass(frozen=True, slots=True)
class Rent:
    """`rows` of each pool: what a node holds, and what each replica takes of it (by column)."""

    nodes: tuple[int, ...]
    usd: tuple[float, ...]
    rows: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    budget_usd: float

    def add(self, program: pulp.LpProblem, replicas: Sequence[pulp.LpVariable]) -> None:
        """Lets `replicas` take what is rented, and no more."""
        rented = [
            program.add_variable(f"r{p:03}", 0, nodes, pulp.LpInteger) for p, nodes in enumerate(self.nodes)
        ]
        for node, rows in zip(rented, self.rows, strict=True):
            for holds, weights in rows:
                program += (
                    pulp.lpSum(w * n for w, n in zip(weights, replicas, strict=True) if w) <= holds * node
                )
        program += pulp.lpDot(self.usd, rented) <= self.budget_usd


def rent_of(cluster: Cluster, shapes: Sequence[Shape]) -> Rent | None:
    """Rent of the nodes that replicas of `shapes`, the program's columns, stand on; None where there is no budget."""
    if cluster.budget_usd_per_hour is None:
        return None
    return Rent(
        tuple(pool.nodes for pool in cluster.pools),
        tuple(pool.usd_per_node_hour for pool in cluster.pools),
        tuple(
            tuple((row.limit, row.weights) for row in packing_rows(replace(pool, nodes=1), shapes))
            for pool in cluster.pools
        ),
        cluster.budget_usd_per_hour,
    )
