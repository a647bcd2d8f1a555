"""Names by which a cluster knows a GPU type: the node label that names it and the resource that counts it.

NVIDIA: label `nvidia.com/gpu.product` of GPU feature discovery, the device's name with dashes for spaces.
AMD: label `amd.com/gpu.product-name` of the node labeller, with underscores.
"""

from dataclasses import dataclass
from typing import Literal

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia_sim.hardware.catalogue import UnknownGpu


@dataclass(frozen=True, slots=True)
class GpuNode:
    vendor: Literal["nvidia", "amd", "cpu"]
    product: str

    @property
    def resource(self) -> str:
        return f"{self.vendor}.com/gpu"

    @property
    def label(self) -> str:
        return "nvidia.com/gpu.product" if self.vendor == "nvidia" else "amd.com/gpu.product-name"

    def visible(self, ids: str) -> dict[str, str]:
        """The variable that limits a process to some of a machine's GPUs; cores are bound otherwise."""
        if self.vendor == "cpu":
            return {}
        return {"CUDA_VISIBLE_DEVICES" if self.vendor == "nvidia" else "HIP_VISIBLE_DEVICES": ids}


_NVIDIA = {
    "a10": "NVIDIA-A10",
    "a10g": "NVIDIA-A10G",
    "a100-40gb": "NVIDIA-A100-SXM4-40GB",
    "a100-pcie": "NVIDIA-A100-80GB-PCIe",
    "a100-sxm": "NVIDIA-A100-SXM4-80GB",
    "a30": "NVIDIA-A30",
    "a40": "NVIDIA-A40",
    "a6000": "NVIDIA-RTX-A6000",
    "b200-sxm": "NVIDIA-B200",
    "b300-sxm": "NVIDIA-B300-SXM6-AC",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "gh200": "NVIDIA-GH200-480GB",
    "h100-nvl": "NVIDIA-H100-NVL",
    "h100-pcie": "NVIDIA-H100-PCIe",
    "h100-sxm": "NVIDIA-H100-80GB-HBM3",
    "h20": "NVIDIA-H20",
    "h200-sxm": "NVIDIA-H200",
    "l4": "NVIDIA-L4",
    "l40s": "NVIDIA-L40S",
    "rtx-pro-6000": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "rtx4090": "NVIDIA-GeForce-RTX-4090",
    "rtx5090": "NVIDIA-GeForce-RTX-5090",
    "t4": "Tesla-T4",
    "v100": "Tesla-V100-SXM2-32GB",
}
_AMD = {
    "mi300x": "AMD_Instinct_MI300X_OAM",
    "mi325x": "AMD_Instinct_MI325X_OAM",
    "mi355x": "AMD_Instinct_MI355X_OAM",
}

GPU_NODES = {name: GpuNode("nvidia", product) for name, product in _NVIDIA.items()} | {
    name: GpuNode("amd", product) for name, product in _AMD.items()
}
"""By the catalogue's name of the GPU."""

CORES = GpuNode("cpu", "")
"""Stands where a pool's "GPUs" are cores: on one machine, never in Kubernetes."""


def gpu_node(pool: Pool) -> GpuNode:
    """Node label and resource of a pool's GPU, by the catalogue's name or an alias; of a GPU of one's own by
    its `product`, which may be left empty.
    """
    if pool.own_gpu is not None:
        return GpuNode(pool.own_gpu.vendor, pool.own_gpu.product or "")
    try:
        return CORES if pool.on_cores else GPU_NODES[pool.hardware.name]
    except (UnknownGpu, KeyError):
        known = ", ".join(GPU_NODES)
        raise BadInput(
            f"cluster: gpu {pool.gpu}", "no node label is known for it", f"use one of {known}"
        ) from None


def labelled(node: GpuNode, gpu: str) -> GpuNode:
    """`node`, where Kubernetes can find it. Raises `BadInput` for a GPU of one's own without a `product`."""
    if node.product:
        return node
    raise BadInput(
        f"cluster: gpu {gpu}",
        "no node label is known for it",
        f"write product: what {node.label} says of it, into the gpu of the spec, and plan again",
    )
