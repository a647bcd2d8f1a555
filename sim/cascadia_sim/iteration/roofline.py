"""Roofline of one iteration on one replica: its time is the larger of arithmetic and memory traffic.

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. All functions return seconds through all layers
of the model on one tensor-parallel group; arrays are by tokens (or sequences) in the iteration. Equations,
constants and their errors: docs/models/simulator.md.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.hardware.gpu import TILE_ROWS, Gpu
from cascadia_sim.iteration.mla import latent_context_seconds
from cascadia_sim.iteration.sharding import (
    Gemm,
    attention_gemms,
    kv_elements_per_gpu,
    mlp_gemms,
    recurrent_gemms,
)
from cascadia_sim.models.architecture import REFERENCE_CONTEXT_TOKENS, Architecture
from cascadia_sim.models.quantization import WeightFormat, kv_element_bytes, weight_format

Floats = NDArray[np.float64]

ACTIVATION_BYTES = 2.0
# Two norms, projections in and out, rotary embedding, KV write, attention, up, activation, down.
DENSE_KERNELS = 10
# A mixture adds routing, sorting, a second pair of grouped products and the weighted sum.
EXPERT_KERNELS = 6
# Latent attention projects twice on the way in and absorbs its key and value matrices.
LATENT_KERNELS = 5
# Measured: 4.3, 4.6 and 4.9 us on 2, 4 and 8 H100s (aiconfigurator, vLLM custom all-reduce in a graph).
LATENCY_PER_DOUBLING = 0.1
# Of the network card: RDMA with large messages.
INTER_NODE_EFFICIENCY = 0.8

_BF16 = weight_format("bf16")


def gemm_seconds(tokens: Floats, gemms: tuple[Gemm, ...], gpu: Gpu, form: WeightFormat) -> Floats:
    """Each product of `tokens` rows reads its matrix once and its rows in and out."""
    flops = _flops(gpu, form)
    bandwidth = gpu.hbm_bytes_per_s * gpu.efficiency.gemm_hbm
    total = np.zeros_like(tokens)
    tiled = tiled_rows(tokens, gpu.tile_rows)
    last_wave = gpu.efficiency.wave_outputs * np.minimum(1.0, tokens / TILE_ROWS)
    for gemm in gemms:
        memory = (gemm.weights * form.bytes_per_weight) / bandwidth + tokens * (
            (gemm.inputs + gemm.outputs) * ACTIVATION_BYTES / bandwidth
        )
        compute = (tiled * gemm.outputs + last_wave) * (2.0 * gemm.inputs / flops)
        total += smooth_max(compute, memory, gpu.efficiency.ridge)
    return total


def tiled_rows(tokens: Floats, tile_rows: int = TILE_ROWS) -> Floats:
    """Rows that a matrix product computes for so many tokens: up to whole tiles, once a tile is half full."""
    return np.where(tokens > tile_rows / 2, np.ceil(tokens / tile_rows) * tile_rows, tokens)


def qkv_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int) -> Floats:
    """All that attention multiplies by before it attends: queries, keys, values, latent projections."""
    a = architecture
    return a.attention_layers * gemm_seconds(tokens, attention_gemms(a, tp)[:-1], gpu, _plain(form))


def out_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int) -> Floats:
    """Attention's output projection."""
    a = architecture
    return a.attention_layers * gemm_seconds(tokens, attention_gemms(a, tp)[-1:], gpu, _plain(form))


def recurrent_seconds(
    tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int
) -> Floats:
    """The recurrent layers' matrices, and the arithmetic of their states."""
    a = architecture
    if a.recurrent is None:
        return np.zeros_like(tokens)
    matrices = gemm_seconds(tokens, recurrent_gemms(a, tp), gpu, _plain(form))
    flops = gpu.bf16_flops * gpu.efficiency.attention_compute
    return a.recurrent.layers * (matrices + tokens * (a.recurrent.flops_per_token / tp / flops))


def state_seconds(sequences: Floats, architecture: Architecture, gpu: Gpu, tp: int) -> Floats:
    """Reading and writing the state of each sequence, once an iteration."""
    moved = 2 * architecture.state_bytes_per_sequence() / tp
    return np.asarray(sequences * (moved / (gpu.hbm_bytes_per_s * gpu.efficiency.kv_hbm)))


def up_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int) -> Floats:
    """Seconds of the up projection, gate included, of dense layers and of experts that every token shares."""
    return _mlp_seconds(tokens, architecture, gpu, form, tp, 0)


def down_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int) -> Floats:
    """Down projection of dense layers and of experts that every token shares."""
    return _mlp_seconds(tokens, architecture, gpu, form, tp, 1)


def _mlp_seconds(
    tokens: Floats, a: Architecture, gpu: Gpu, form: WeightFormat, tp: int, which: int
) -> Floats:
    total = np.zeros_like(tokens)
    widths = [(a.dense_layers, a.intermediate)]
    widths += [(a.moe_layers, a.moe.shared_intermediate)] if a.moe is not None else []
    for layers, width in widths:
        if layers:
            gemm = mlp_gemms(a, width, tp)[which : which + 1]
            total += layers * gemm_seconds(tokens, gemm, gpu, _plain(form))
    return total


def element_wise_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu, tp: int) -> Floats:
    """Norms, residuals, rotary embedding, KV write and activation of all layers: their traffic."""
    bandwidth = gpu.hbm_bytes_per_s * gpu.efficiency.gemm_hbm
    return np.asarray(tokens * (_element_wise_bytes(architecture, tp) / bandwidth))


def fixed_seconds(tokens: Floats, architecture: Architecture, gpu: Gpu) -> Floats:
    """Seconds that all layers cost whatever the number of tokens: starts of kernels, and of attention."""
    a = architecture
    e = gpu.efficiency
    experts = EXPERT_KERNELS * e.kernel_s + e.expert_layer_s if a.moe is not None else 0.0
    return np.full_like(tokens, a.layers * _fixed_layer_s(a, gpu) + a.moe_layers * experts)


def lm_head_seconds(
    sequences: Floats, architecture: Architecture, gpu: Gpu, form: WeightFormat, tp: int
) -> Floats:
    """The LM head, for those rows that yield a token; nothing for none."""
    a = architecture
    # Checkpoints leave the head in a format of its own, whatever the layers are in: GGUF mostly Q6_K, others
    # BF16.
    head_form = replace(_BF16, bytes_per_weight=form.bytes_per_entry)
    head = gemm_seconds(sequences, (Gemm(a.hidden, -(-a.vocab // tp)),), gpu, head_form)
    return np.where(sequences > 0, head, 0.0)


def sampler_seconds(sequences: Floats, architecture: Architecture, gpu: Gpu) -> Floats:
    """Logits as FP32: gathered, scaled, turned into probabilities, drawn from; nothing for none."""
    vocab_bytes = 4 * 4 * architecture.vocab
    traffic = sequences * (vocab_bytes / (gpu.hbm_bytes_per_s * gpu.efficiency.gemm_hbm))
    return np.where(sequences > 0, traffic + 4 * gpu.efficiency.kernel_s, 0.0)


def sequence_seconds(sequences: Floats, architecture: Architecture, gpu: Gpu) -> Floats:
    """Seconds that attention spends on a sequence whatever its context: a block of work to plan, start and
    join.
    """
    return sequences * (architecture.attention_layers * gpu.efficiency.attention_sequence_s)


def context_seconds(architecture: Architecture, gpu: Gpu, tp: int, kv_cache_dtype: str) -> float:
    """Decode attention over one token of context: reads its KV entries; latent attention is in `mla.py`."""
    a = architecture
    entry_bytes = kv_elements_per_gpu(a, tp) * kv_element_bytes(kv_cache_dtype)
    if a.mla is not None:
        attended = a.attending_layers() * _attended(a, 1.0)
        return latent_context_seconds(a, gpu, tp, entry_bytes) * attended + index_seconds(a, gpu)
    seconds = entry_bytes / (gpu.hbm_bytes_per_s * gpu.efficiency.kv_hbm)
    flops = 2.0 * (a.heads / tp) * (a.head_dim + a.v_head_dim)
    seconds += gpu.efficiency.decode_compute * flops / gpu.bf16_flops
    return seconds * a.attending_layers()


def pair_seconds(architecture: Architecture, gpu: Gpu, tp: int) -> float:
    """Prefill attention of one query to one key: both products, for each head on the GPU.

    Of a prompt of n tokens a window of w leaves about 2 w / n of the pairs; n is `REFERENCE_CONTEXT_TOKENS`.
    """
    a = architecture
    layers = float(a.attention_layers) * _attended(a, 2.0)
    if a.window is not None:
        layers -= a.window.layers * (1.0 - min(1.0, 2.0 * a.window.tokens / REFERENCE_CONTEXT_TOKENS))
    flops = 2.0 * (a.heads / tp) * (a.head_dim + a.v_head_dim)
    seconds = layers * flops / (gpu.bf16_flops * gpu.efficiency.attention_compute)
    return seconds + _index_flops(a) / (gpu.gemm_flops("fp8"))


def _attended(a: Architecture, times: float) -> float:
    """The share of a context of `REFERENCE_CONTEXT_TOKENS` that sparse attention attends to, `times` over."""
    return 1.0 if a.sparse is None else min(1.0, times * a.sparse.top / REFERENCE_CONTEXT_TOKENS)


def _index_flops(a: Architecture) -> float:
    """FLOPs of the indexers of all layers, one query and one token of context; each GPU has all of it."""
    return a.attention_layers * 2.0 * a.sparse.heads * a.sparse.dim if a.sparse else 0.0


def index_seconds(a: Architecture, gpu: Gpu) -> float:
    """Decoding over one token of context, all layers' indexers: the longer of reading its key and multiplying it."""
    reading = a.attention_layers * a.indexer_bytes_per_token / (gpu.hbm_bytes_per_s * gpu.efficiency.kv_hbm)
    return max(reading, _index_flops(a) / gpu.gemm_flops("fp8"))


def allreduce_seconds(
    tokens: Floats,
    architecture: Architecture,
    gpu: Gpu,
    tp: int,
    gpus_per_node: int,
    count: float | None = None,
) -> Floats:
    """`count` all-reduces, by itself one a mixer, an MLP and the embedding.

    Each moves 2 (tp - 1) / tp messages per GPU.
    """
    if tp == 1:
        return np.zeros_like(tokens)
    latency, bandwidth = link_of(gpu, tp > gpus_per_node)
    message_bytes = architecture.hidden * ACTIVATION_BYTES
    if count is None:
        # One more: the embedding's rows are spread over the GPUs as well.
        count = float(architecture.reductions + 1)
    latency *= gpu.efficiency.link_latency * (1.0 + LATENCY_PER_DOUBLING * math.log2(tp / 2))
    count *= gpu.efficiency.link_factor(tp)
    return np.asarray(count * (latency + tokens * (2 * (tp - 1) / tp * message_bytes / bandwidth)))


def boundary_seconds(
    tokens: Floats, architecture: Architecture, gpu: Gpu, tp: int, pp: int, gpus_per_node: int
) -> Floats:
    """Activations sent from each pipeline stage to the next, split over the tensor-parallel GPUs."""
    if pp == 1:
        return np.zeros_like(tokens)
    stages_per_node = max(1, gpus_per_node // tp)
    # Stages fill node after node, so that few boundaries cross the slow link.
    between_nodes = -(-pp // stages_per_node) - 1
    message_bytes = 2 * architecture.hidden * ACTIVATION_BYTES / tp  # hidden state and residual
    total = np.zeros_like(tokens)
    for count, across in ((pp - 1 - between_nodes, False), (between_nodes, True)):
        latency, bandwidth = link_of(gpu, across)
        total += count * (latency + tokens * (message_bytes / bandwidth))
    return total


def smooth_max(a: Floats, b: Floats, exponent: float = 4.0) -> Floats:
    """(a^n + b^n)^(1/n): for n = 4 at most 19 % above the larger, which is what kernels near the ridge lose."""
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    return np.asarray(larger * (1.0 + (smaller / larger) ** exponent) ** (1.0 / exponent))


def _plain(form: WeightFormat) -> WeightFormat:
    """The format of matrices outside the routed experts."""
    return _BF16 if form.experts_only else form


def _flops(gpu: Gpu, form: WeightFormat) -> float:
    return gpu.gemm_flops(form.precision) * (gpu.efficiency.dequantise if form.dequantised else 1.0)


def _fixed_layer_s(a: Architecture, gpu: Gpu) -> float:
    kernels = DENSE_KERNELS + (LATENT_KERNELS if a.mla is not None else 0)
    latent = gpu.efficiency.latent_layer_s if a.mla is not None else 0.0
    return kernels * gpu.efficiency.kernel_s + gpu.efficiency.attention_s + latent


def _element_wise_bytes(a: Architecture, tp: int) -> float:
    """Traffic of one token, all layers: norms, residuals, rotary embedding, KV write, activation."""
    norms = 2 * 4 * a.hidden
    rotary = 2 * (a.heads * a.head_dim / tp + kv_elements_per_gpu(a, tp))
    dense = a.dense_layers * a.intermediate
    mixture = 0.0
    if a.moe is not None:
        mixture = a.moe_layers * (
            a.moe.shared_intermediate + a.moe.computed_per_token * (a.moe.intermediate + a.hidden)
        )
    activation = a.mlp_matrices * (dense + mixture) / tp
    return ACTIVATION_BYTES * (a.layers * norms + a.attention_layers * rotary + activation)


def link_of(gpu: Gpu, between_nodes: bool) -> tuple[float, float]:
    """Latency of a message and the bandwidth it reaches."""
    if between_nodes:
        return gpu.inter_node_latency_s, gpu.inter_node_bytes_per_s * INTER_NODE_EFFICIENCY
    return gpu.link_latency_s, gpu.link_bytes_per_s * gpu.efficiency.link
