"""A GPU that the catalogue does not know, by the figures of its data sheet.

Kernels of its own were never timed here, so that it borrows the efficiencies of a generation that was: the one it
names, else that of the catalogued GPU most like it.
"""

from dataclasses import dataclass, field
from math import isfinite, log
from typing import Literal

from cascadia_sim.errors import BadInput
from cascadia_sim.hardware.catalogue import (
    efficiency_of,
    generations,
    gpu,
    is_known,
    known_gpus,
    link_latency_s,
)
from cascadia_sim.hardware.gpu import Gpu

GIB = 2**30
LEAST = 1e-9
"""Ratio of two figures below which nothing more is made of it."""

UNLIKE = 2.0
"""A precision that only one of two GPUs has sets them as far apart as a factor of e^2 in one figure."""


class BadGpu(BadInput):
    """A figure of a GPU of one's own that means nothing."""


@dataclass(frozen=True, slots=True)
class Tflops:
    """Dense tensor-core peaks, TFLOP/s; 0 where it has no such units. `bf16` is FP16's where it knows no BF16."""

    bf16: float
    fp8: float = 0.0
    int8: float = 0.0
    fp4: float = 0.0


@dataclass(frozen=True, slots=True)
class OwnGpu:
    """`memory_gib` of one GPU; bandwidths in GB/s, `link_gb_s` (within a node) and `inter_node_gb_s` per direction.

    `generation` lends its efficiencies (None: the nearest). `product` is what the cluster's node label calls it.
    """

    name: str
    memory_gib: float
    bandwidth_gb_s: float
    tflops: Tflops
    link_gb_s: float = 32.0
    inter_node_gb_s: float = 12.5
    generation: str | None = None
    vendor: Literal["nvidia", "amd"] = "nvidia"
    product: str | None = field(default=None)

    def __post_init__(self) -> None:
        if is_known(self.name):
            raise BadGpu(
                "name",
                f"{self.name!r} is a GPU of the catalogue",
                "write gpu: " + gpu(self.name).name + ", or another name for yours",
            )
        figures = {
            "memory_gib": self.memory_gib,
            "bandwidth_gb_s": self.bandwidth_gb_s,
            "tflops.bf16": self.tflops.bf16,
            "link_gb_s": self.link_gb_s,
            "inter_node_gb_s": self.inter_node_gb_s,
        }
        for name, value in figures.items():
            if not (isfinite(value) and value > 0):
                raise BadGpu(name, f"is {value:g}", "write a number above 0")
        for name in ("fp8", "int8", "fp4"):
            value = getattr(self.tflops, name)
            if not (isfinite(value) and value >= 0):
                raise BadGpu(f"tflops.{name}", f"is {value:g}", "write 0 where it has no such units")
        if self.generation is not None and self.generation not in generations():
            raise BadGpu(
                "generation",
                f"{self.generation!r} is not known",
                f"write one of {', '.join(generations())}, or leave it out for the nearest",
            )


def hardware_of(own: OwnGpu) -> Gpu:
    """The GPU as the roofline sees it. Its price is the pool's."""
    nearest = nearest_gpu(own)
    generation = own.generation or nearest.generation
    link = nearest.link if nearest.generation == generation else "pcie"
    return Gpu(
        name=own.name,
        generation=generation,
        memory_bytes=round(own.memory_gib * GIB),
        bf16_flops=own.tflops.bf16 * 1e12,
        fp8_flops=own.tflops.fp8 * 1e12,
        int8_flops=own.tflops.int8 * 1e12,
        fp4_flops=own.tflops.fp4 * 1e12,
        hbm_bytes_per_s=own.bandwidth_gb_s * 1e9,
        link=link,
        link_bytes_per_s=own.link_gb_s * 1e9,
        link_latency_s=link_latency_s(link),
        inter_node_bytes_per_s=own.inter_node_gb_s * 1e9,
        inter_node_latency_s=nearest.inter_node_latency_s,
        usd_per_hour=0.0,
        price_source="the spec",
        source="the spec",
        efficiency=efficiency_of(generation),
    )


def nearest_gpu(own: OwnGpu) -> Gpu:
    """The catalogued GPU whose memory, bandwidth, peak and link differ least, as ratios, and whose units are alike."""

    def apart(known: Gpu) -> float:
        mine = (own.memory_gib * GIB, own.bandwidth_gb_s, own.tflops.bf16, own.link_gb_s)
        theirs = (
            known.memory_bytes,
            known.hbm_bytes_per_s / 1e9,
            known.bf16_flops / 1e12,
            known.link_bytes_per_s / 1e9,
        )
        units = ((own.tflops.fp8, known.fp8_flops), (own.tflops.fp4, known.fp4_flops))
        unlike = sum((one > 0) != (other > 0) for one, other in units)
        ratios = (max(a / b, LEAST) for a, b in zip(mine, theirs, strict=True))
        return sum(log(ratio) ** 2 for ratio in ratios) + UNLIKE**2 * unlike

    candidates = [gpu(name) for name in known_gpus()]
    same = [known for known in candidates if known.generation == own.generation]
    vendors = [known for known in candidates if (known.link == "xgmi") == (own.vendor == "amd")]
    return min(same or vendors, key=apart)
