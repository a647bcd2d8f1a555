"""Routed experts: which of them a batch meets, what reading and multiplying them takes, and what EP changes.

Split by width (tensor parallelism) each GPU holds a slice of every expert; split by whole experts (expert
parallelism, EP) each holds some experts in full, and the busiest GPU sets the pace. Routing is uniform: real
routers are skewed, and touch fewer experts at small batches.
"""

import math

import numpy as np

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.roofline import ACTIVATION_BYTES, Floats, smooth_max
from cascadia_sim.iteration.sharding import InvalidShape, mlp_gemms
from cascadia_sim.models.architecture import Architecture, Experts
from cascadia_sim.models.quantization import WeightFormat


class BadExpertSplit(InvalidShape):
    """The experts cannot be split so."""


def check_expert_split(architecture: Architecture, gpus: int) -> None:
    """Raises `BadExpertSplit` unless whole experts can be spread evenly over `gpus`."""
    moe = architecture.moe
    if moe is None:
        raise BadExpertSplit(
            "enable_expert_parallel", f"{architecture.name} has no experts", "leave it out for a dense model"
        )
    if moe.count % gpus:
        raise BadExpertSplit(
            "enable_expert_parallel",
            f"{moe.count} experts do not spread evenly over {gpus} GPUs",
            "use a tp that divides the experts, or leave it out",
        )


def distinct_experts(tokens: Floats, moe: Experts) -> Floats:
    """Expected number of experts that some of `tokens` chose: E (1 - (1 - k/E)^t) with uniform choice.

    Where further experts compute nothing, k of E + Z are chosen: each of the E as often as `computed_per_token` says.
    """
    if moe.computed_per_token >= moe.count:
        return np.full_like(tokens, moe.count)
    # E (1 - (1 - k/E)^t) by expm1 and log1p: for many experts and few tokens the power is 1 but for its last
    # digits.
    return np.asarray(-moe.count * np.expm1(tokens * math.log1p(-moe.computed_per_token / moe.count)))


def busiest(mean: Floats, gpus: int) -> Floats:
    """Expected largest of `gpus` Poisson counts of this mean, to first order: mean + sqrt(2 mean ln gpus)."""
    return np.asarray(mean + np.sqrt(mean * (2.0 * math.log(gpus))))


def busiest_load(tokens: Floats, moe: Experts, gpus: int) -> tuple[Floats, Floats]:
    """Distinct experts and rows (token-expert pairs) on the busiest of `gpus` under expert parallelism.

    A GPU has no more than its E / gpus experts, and a token sends it no more rows than it has experts.
    """
    local = moe.count / gpus
    # The first-order maximum runs past what a GPU can have where counts are small.
    distinct = np.minimum(busiest(distinct_experts(tokens, moe) / gpus, gpus), local)
    rows = np.minimum(
        busiest(tokens * (moe.computed_per_token / gpus), gpus), tokens * min(local, moe.per_token)
    )
    return distinct, np.maximum(rows, distinct)


def layer_seconds(
    tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, gpus: int, whole: bool
) -> Floats:
    """One mixture layer's routed experts for `tokens` of all its `gpus`; `whole`: split by experts, not width.

    The experts met are read once, at `gemm_hbm` times `expert_read`; rows pass in and out `expert_rows` times.
    """
    moe = architecture.moe
    if moe is None:
        return np.zeros_like(tokens)
    shards = 1 if whole else gpus
    weights = sum(g.weights for g in mlp_gemms(architecture, moe.intermediate, shards))
    if whole and gpus > 1:
        distinct, rows = busiest_load(tokens, moe, gpus)
    else:
        distinct, rows = distinct_experts(tokens, moe), tokens * moe.computed_per_token
    e = gpu.efficiency
    flops = gpu.gemm_flops(form.precision) * (e.dequantise if form.dequantised else 1.0)
    flops *= e.expert_compute / e.gemm_compute
    reading = gpu.hbm_bytes_per_s * min(1.0, e.gemm_hbm * e.expert_read)
    row_bytes = e.expert_rows * 2 * (architecture.hidden + moe.intermediate / shards) * ACTIVATION_BYTES
    memory = distinct * (weights * form.bytes_per_weight / reading)
    memory = memory + rows * (row_bytes / (gpu.hbm_bytes_per_s * e.gemm_hbm))
    return smooth_max(rows * (2.0 * weights / flops), memory, e.ridge)
