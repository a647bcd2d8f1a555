"""A candidate plan while it is being searched for: a routing and a mix of replicas for each demand."""

from dataclasses import dataclass

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.options import Mix
from cascadia.planner.tables.packing import fits


@dataclass(frozen=True, slots=True)
class Deployment:
    """`routing` is an index into the frontier; `mixes` are by stage index, the judge's under `JUDGE`."""

    routing: int
    mixes: tuple[tuple[int, Mix], ...]

    def mix(self, stage: int) -> Mix:
        return dict(self.mixes).get(stage, ())

    @property
    def key(self) -> object:
        return self.routing, tuple(
            (stage, tuple(sorted((r.shape.key, r.count, r.level) for r in mix))) for stage, mix in self.mixes
        )

    @property
    def gpus(self) -> int:
        return sum(r.shape.gpus * r.count for _, mix in self.mixes for r in mix)

    def gpus_of(self, pool: str) -> int:
        return sum(r.shape.gpus * r.count for _, mix in self.mixes for r in mix if r.shape.pool == pool)

    @property
    def usd_per_hour(self) -> float:
        return sum(r.shape.usd_per_hour * r.count for _, mix in self.mixes for r in mix)

    @property
    def judge(self) -> Mix:
        return self.mix(JUDGE)

    def fits(self, cluster: Cluster) -> bool:
        counts = [(r.shape, r.count) for _, mix in self.mixes for r in mix]
        return all(fits(pool, counts) for pool in cluster.pools)


def deployment(routing: int, mixes: dict[int, Mix]) -> Deployment:
    return Deployment(routing, tuple(sorted(mixes.items())))
