"""Cluster to deploy on: pools of GPUs, or cores, and their links."""

from dataclasses import dataclass

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.hardware.own import OwnGpu, hardware_of


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal nodes with equal GPUs. `gpu` is a name of the bundled GPU catalogue, or that of `own_gpu`."""

    name: str
    gpu: str
    nodes: int
    gpus_per_node: int
    usd_per_gpu_hour: float
    own_gpu: OwnGpu | None = None
    rented: int | None = None
    """Of a plan under a budget: whole nodes that it takes."""

    @property
    def usd_per_node_hour(self) -> float:
        return self.gpus_per_node * self.usd_per_gpu_hour

    @property
    def hardware(self) -> Gpu:
        return gpu(self.gpu) if self.own_gpu is None else hardware_of(self.own_gpu)

    @property
    def on_cores(self) -> bool:
        """Tells whether the pool's "GPUs" are cores of a server."""
        return self.hardware.generation == "cpu"

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Cluster:
    """`budget_usd_per_hour` is what all nodes that are taken may cost together, each whole; None: nobody asks."""

    pools: tuple[Pool, ...]
    budget_usd_per_hour: float | None = None

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools)

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)
