"""A GPU as the roofline sees it: memory, peaks, bandwidths, links, and what share kernels reach."""

from dataclasses import dataclass

TILE_ROWS = 128
"""Of the tiles in which GPUs multiply large matrices."""

GPUS_PER_NODE = 8
"""Of those whose entry says nothing else."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Fractions (0-1) of the peaks, and fixed times. Fitted by GPU generation: docs/models/simulator.md.

    `gemm_low_precision` is of the FP8 or INT8 peak, quantising the activations included; `dequantise` is the
    further factor on compute where weights are widened first. `kernel_s` is one kernel's start inside a CUDA
    graph, `attention_s` what one layer's attention takes beyond it, `iteration_s` the engine's own work an
    iteration and `sequence_s` that for each sequence in it. `ridge` is the exponent of the smooth maximum of
    compute and memory time; `link_latency` multiplies the link's latency a collective, `link_tp2`, `link_tp4` and
    `link_tp8` the whole all-reduce at that degree (beyond 8 as at 8), `head` the LM head, `sampler` the traffic of
    the sampler. `decode_compute` is how many times its FLOPs at the BF16 peak decoding attention takes beyond reading
    its KV entries (kernels that serve each query head alone read them from the cache again and again), and
    `wave_outputs` the outputs that a matrix product computes in vain in its last wave of tiles.

    For mixtures `expert_read` multiplies `gemm_hbm` where experts are read, `expert_rows` how often a row passes in
    and out of them, `expert_layer_s` is what routing and grouping cost a layer beyond kernels' starts; for latent
    attention `latent_layer_s` the same and `latent_attention` multiplies decoding over its cache. Clients see tokens
    `first_token_s` and `first_token_steps` decode steps later than the engine has them (`engine/client.py`): no part of
    an iteration.
    """

    gemm_compute: float
    gemm_low_precision: float
    gemm_hbm: float
    expert_compute: float
    dequantise: float
    attention_compute: float
    kv_hbm: float
    link: float
    kernel_s: float
    attention_s: float
    iteration_s: float
    sequence_s: float = 0.0
    attention_sequence_s: float = 0.0
    ridge: float = 4.0
    link_latency: float = 1.0
    link_tp2: float = 1.0
    link_tp4: float = 1.0
    link_tp8: float = 1.0
    head: float = 1.0
    sampler: float = 1.0
    decode_compute: float = 0.0
    wave_outputs: float = 0.0

    expert_read: float = 1.0
    expert_rows: float = 1.0
    expert_layer_s: float = 0.0
    latent_layer_s: float = 0.0
    latent_attention: float = 1.0
    first_token_s: float = 0.0
    first_token_steps: float = 0.0

    def link_factor(self, tp: int) -> float:
        """Share of the link's bandwidth that an all-reduce among `tp` GPUs reaches."""
        if tp <= 2:
            return self.link_tp2
        return self.link_tp4 if tp <= 4 else self.link_tp8


@dataclass(frozen=True, slots=True)
class Gpu:
    """Peaks are dense tensor-core rates; 0 where the GPU has no such units. Links are per GPU and direction.

    `link_latency_s` is what one collective within the node takes for a message of no size. `gpus_per_node`: as many as
    such nodes are sold with.
    """

    name: str
    generation: str
    memory_bytes: int
    bf16_flops: float
    fp8_flops: float
    int8_flops: float
    fp4_flops: float
    hbm_bytes_per_s: float
    link: str
    link_bytes_per_s: float
    link_latency_s: float
    inter_node_bytes_per_s: float
    inter_node_latency_s: float
    usd_per_hour: float
    price_source: str
    source: str
    efficiency: Efficiency
    gpus_per_node: int = GPUS_PER_NODE

    @property
    def tile_rows(self) -> int:
        """A CPU works row by row: measured, llama.cpp's prompts of 80 tokens take 80 / 64 of those of 64."""
        return 1 if self.generation == "cpu" else TILE_ROWS

    def gemm_flops(self, precision: str) -> float:
        """FLOP/s that a large matrix product reaches; without units of that precision, BF16's are used."""
        peak = {"fp8": self.fp8_flops, "int8": self.int8_flops, "fp4": self.fp4_flops}.get(precision, 0.0)
        if peak:
            return max(
                peak * self.efficiency.gemm_low_precision, self.bf16_flops * self.efficiency.gemm_compute
            )
        return self.bf16_flops * self.efficiency.gemm_compute
