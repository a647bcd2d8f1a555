"""Multi-head latent attention: what decoding one token over a context costs, and what it keeps.

Prefill multiplies expanded keys and values, (nope + rope + v) wide per head. Decoding absorbs the up-projections
into queries and outputs (DeepSeek-V2, arXiv:2405.04434, section 2.1.2) and attends in the compressed space: all heads
share one entry of kv_rank + rope numbers, which every GPU of a tensor-parallel group keeps. Under attention-DP a rank
keeps its own requests' entries only.
"""

from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.models.architecture import Architecture


def latent_context_seconds(architecture: Architecture, gpu: Gpu, tp: int, entry_bytes: float) -> float:
    """One layer and one context token: the longer of reading its entry and multiplying it for each head."""
    mla = architecture.mla
    if mla is None:
        return 0.0
    e = gpu.efficiency
    reading = entry_bytes / (gpu.hbm_bytes_per_s * e.kv_hbm)
    flops = 2.0 * (architecture.heads / tp) * (2 * mla.kv_rank + mla.rope_dim)
    return max(reading, flops / (gpu.bf16_flops * e.attention_compute)) * e.latent_attention
