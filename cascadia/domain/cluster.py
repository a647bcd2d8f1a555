"""Cluster to deploy on: pools of GPUs, or cores, and their links."""

from dataclasses import dataclass
from typing import Literal

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.hardware.own import OwnGpu, hardware_of

AWAY_S = 600.0
"""Seconds from a spot node's interruption until another in its place serves: a node to start, weights to load."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Price of GPUs that may be taken away, and how often a node of them is."""

    usd_per_gpu_hour: float
    interruptions_per_day: float

    @property
    def there(self) -> float:
        """Share (0-1) of the time that a node serves."""
        return max(1.0 - self.interruptions_per_day * AWAY_S / 86_400, 0.0)


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal nodes with equal GPUs. `gpu` is a name of the bundled GPU catalogue, or that of `own_gpu`.

    `usd_per_gpu_hour` is the price on demand; `spot` is taken instead where a GPU costs less by it for the time that it
    serves. `rent`: what a budget pays for, whole nodes, or single GPUs of nodes of any size up to these.
    """

    name: str
    gpu: str
    nodes: int
    gpus_per_node: int
    usd_per_gpu_hour: float
    own_gpu: OwnGpu | None = None
    rented: int | None = None
    """Of a plan under a budget: whole nodes that it takes, or GPUs where these are rented one by one."""
    spot: Spot | None = None
    rent: Literal["node", "gpu"] = "node"

    @property
    def on_spot(self) -> bool:
        spot = self.spot
        return spot is not None and spot.usd_per_gpu_hour < self.usd_per_gpu_hour * spot.there

    @property
    def paid_usd_per_gpu_hour(self) -> float:
        """Price of what is rented: spot's, or that on demand."""
        return self.spot.usd_per_gpu_hour if self.spot is not None and self.on_spot else self.usd_per_gpu_hour

    @property
    def there(self) -> float:
        """Share (0-1) of the time that what is rented serves."""
        return self.spot.there if self.spot is not None and self.on_spot else 1.0

    @property
    def usd_per_node_hour(self) -> float:
        return self.gpus_per_node * self.paid_usd_per_gpu_hour

    @property
    def unit_gpus(self) -> int:
        """GPUs of the least that can be rented."""
        return 1 if self.rent == "gpu" else self.gpus_per_node

    @property
    def usd_per_unit_hour(self) -> float:
        return self.unit_gpus * self.paid_usd_per_gpu_hour

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
    """`budget_usd_per_hour` is what all that is rented may cost together; None: nobody asks."""

    pools: tuple[Pool, ...]
    budget_usd_per_hour: float | None = None

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools)

    def pool(self, name: str) -> Pool:
        return next(pool for pool in self.pools if pool.name == name)
