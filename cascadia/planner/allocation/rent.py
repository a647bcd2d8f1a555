"""Rows of an integer program that rent nodes, or single GPUs, within a budget (Kairos, section 5.2: "the cost budget").

Variables r[p], whole nodes of pool p, or GPUs where these are rented one by one; given w, the packing weights of a
replica on one of them, and c[p], its price.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulp

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.tables.packing import packing_rows
from cascadia.planner.tables.shapes import Shape


@dataclass(frozen=True, slots=True)
class Rent:
    """`most` units of each pool, and its `rows`: what a unit holds, and what each replica takes of it (by column)."""

    most: tuple[int, ...]
    usd: tuple[float, ...]
    rows: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    budget_usd: float

    def add(self, program: pulp.LpProblem, replicas: Sequence[pulp.LpVariable]) -> list[pulp.LpVariable]:
        """Lets `replicas` take what is rented, by pool, and no more."""
        rented = [
            program.add_variable(f"r{p:03}", 0, most, pulp.LpInteger) for p, most in enumerate(self.most)
        ]
        for units, rows in zip(rented, self.rows, strict=True):
            for holds, weights in rows:
                program += (
                    pulp.lpSum(w * n for w, n in zip(weights, replicas, strict=True) if w) <= holds * units
                )
        program += pulp.lpDot(self.usd, rented) <= self.budget_usd
        return rented


def rent_of(cluster: Cluster, shapes: Sequence[Shape]) -> Rent | None:
    """Rent of what replicas of `shapes`, the program's columns, stand on; None where there is no budget."""
    if cluster.budget_usd_per_hour is None:
        return None
    return Rent(
        tuple(pool.gpus // pool.unit_gpus for pool in cluster.pools),
        tuple(pool.usd_per_unit_hour for pool in cluster.pools),
        tuple(_rows(pool, shapes) for pool in cluster.pools),
        cluster.budget_usd_per_hour,
    )


def _rows(pool: Pool, shapes: Sequence[Shape]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    if pool.rent == "gpu":
        return ((1, tuple(shape.gpus if shape.pool == pool.name else 0 for shape in shapes)),)
    return tuple((row.limit, row.weights) for row in packing_rows(replace(pool, nodes=1), shapes))
