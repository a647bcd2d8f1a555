"""Demands that the allocation has to cover: one demand per deployed stage, and one for a self-hosted judge."""

from dataclasses import dataclass

from cascadia.planner.tables.shapes import Shape
from cascadia.planner.tables.tables import StageTable

JUDGE = -1
"""The `stage` of the judge's demand."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """`gated` stages wait for a verdict after each answer; the last deployed stage and the judge do not."""

    stage: int
    name: str
    table: StageTable
    gated: bool

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return self.table.shapes


@dataclass(frozen=True, slots=True)
class Replicas:
    """`count` equal replicas; each takes `1/level` of its stage's requests before shares are normalised."""

    shape: Shape
    count: int
    level: float


@dataclass(frozen=True, slots=True)
class Allocation:
    """Replicas per demand (by `Demand.stage`), with the largest stage quantile that they keep.

    `bound_s` is a value that no allocation can beat; equal to `latency_s` where that is proven.
    """

    replicas: dict[int, tuple[Replicas, ...]]
    latency_s: float
    bound_s: float

    @property
    def gpus(self) -> int:
        return sum(r.shape.gpus * r.count for group in self.replicas.values() for r in group)

    @property
    def proven(self) -> bool:
        return self.bound_s >= self.latency_s

    @property
    def gap(self) -> float:
        return 1 - self.bound_s / self.latency_s if self.latency_s > 0 else 0.0
