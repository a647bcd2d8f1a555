"""A candidate plan while it is being searched for: a routing and a mix of replicas for each demand."""

from dataclasses import dataclass, field

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.options import Mix
from cascadia.planner.tables.packing import fits, paid_usd_per_hour, units_needed

CENT = 0.005
"""Of a budget: prices are sums of rounded numbers."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """`routing` is an index into the frontier; `mixes` are by stage index, the judge's under `JUDGE`.

    `key` is the same for deployments that a simulation does not tell apart. `usd_per_hour` is what is paid: for whole
    nodes, where these are; `in_use_usd` is of its GPUs alone.
    """

    routing: int
    mixes: tuple[tuple[int, Mix], ...]
    key: object = field(init=False, repr=False, compare=False)
    in_use_usd: float = field(init=False, repr=False, compare=False)
    usd_per_hour: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Both are asked for again with each step of a search, of all that it has looked at.
        alike = tuple([(stage, _alike(mix)) for stage, mix in self.mixes])
        object.__setattr__(self, "key", (self.routing, alike))
        counts = [(r.shape, r.count) for _, mix in self.mixes for r in mix]
        object.__setattr__(self, "in_use_usd", sum([shape.usd_per_hour * n for shape, n in counts]))
        object.__setattr__(self, "usd_per_hour", paid_usd_per_hour(counts))

    def mix(self, stage: int) -> Mix:
        return dict(self.mixes).get(stage, ())

    @property
    def gpus(self) -> int:
        return sum(r.shape.gpus * r.count for _, mix in self.mixes for r in mix)

    def gpus_of(self, pool: str) -> int:
        return sum(r.shape.gpus * r.count for _, mix in self.mixes for r in mix if r.shape.pool == pool)

    @property
    def judge(self) -> Mix:
        return self.mix(JUDGE)

    def fits(self, cluster: Cluster) -> bool:
        counts = [(r.shape, r.count) for _, mix in self.mixes for r in mix]
        budget_usd = cluster.budget_usd_per_hour
        within = budget_usd is None or self.usd_per_hour <= budget_usd + CENT
        return within and all(fits(pool, counts) for pool in cluster.pools)

    def rented(self, pool: Pool) -> int:
        """Part of `pool` that its replicas take: whole nodes, or GPUs where these are rented one by one."""
        return units_needed(pool, [(r.shape, r.count) for _, mix in self.mixes for r in mix])


def _alike(mix: Mix) -> tuple[object, ...]:
    """A mix's groups in an order that does not depend on who wrote them down first."""
    groups = [(r.shape.key, r.count, r.level) for r in mix]
    return tuple(groups if len(groups) < 2 else sorted(groups))


def deployment(routing: int, mixes: dict[int, Mix]) -> Deployment:
    return Deployment(routing, tuple(sorted(mixes.items())))
