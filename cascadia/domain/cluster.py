"""What there is to deploy on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal nodes with equal GPUs. `gpu` is a name of the bundled GPU catalogue."""

    name: str
    gpu: str
    nodes: int
    gpus_per_node: int
    usd_per_gpu_hour: float

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Cluster:
    pools: tuple[Pool, ...]

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools)

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)
