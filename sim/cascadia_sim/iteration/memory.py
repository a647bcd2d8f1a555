"""GPU memory: weights, what the engine reserves, and the KV cache that fits beside them."""

from dataclasses import replace
from typing import NamedTuple

from cascadia_sim.errors import BadInput
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.sharding import (
    attention_gemms,
    kv_elements_per_gpu,
    mlp_gemms,
    recurrent_gemms,
    stage_layers,
)
from cascadia_sim.iteration.speculation import drafter, speculates
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.quantization import BF16_BYTES, WeightFormat, kv_element_bytes, weight_format

# CUDA context, library workspaces and captured graphs.
FIXED_RESERVE_BYTES = 1_500_000_000
# NCCL's buffers with more than one GPU: aiconfigurator's systems/*.yaml, nccl_mem.
NCCL_BYTES = 411_041_792


class DoesNotFit(BadInput):
    """Weights, reserve and the smallest useful KV cache exceed one GPU's memory. Both figures are per GPU."""

    def __init__(self, needed_bytes: int, available_bytes: int) -> None:
        super().__init__(
            "memory",
            f"{needed_bytes / 1e9:.1f} GB needed on a GPU, {available_bytes / 1e9:.1f} GB available",
            "use more GPUs a replica, larger GPUs, or quantised weights",
        )
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        # Pickling calls the class with `args`: without these two it could not cross from a worker process.
        self.args = (needed_bytes, available_bytes)


class StageMemory(NamedTuple):
    """Bytes on each GPU of one pipeline stage; of KV, for each token of that GPU's attention rank."""

    weight_bytes: float
    kv_bytes_per_token: float


def stage_memory(
    architecture: Architecture, *, tp: int, pp: int, config: EngineConfig
) -> tuple[StageMemory, ...]:
    """Memory of each stage; the first also holds the embedding, the last the LM head.

    Dense layers of a mixture are taken to come first, as in DeepSeek; where mixers and MLPs do not come in pairs, each
    layer is taken for the mean of all, and so are mixers where some are recurrent. A layer with a sliding window keeps
    its share of a context of `REFERENCE_CONTEXT_TOKENS`.
    """
    a, rank_gpus = architecture, tp // config.attention_dp
    form = weight_format(config.quantization or a.quantization)
    table_bytes = a.embedding_parameters / rank_gpus * form.bytes_per_entry
    kv_layer_bytes = kv_elements_per_gpu(a, rank_gpus) * kv_element_bytes(config.kv_cache_dtype)
    kv_layer_bytes = (
        kv_layer_bytes * a.attending_layers() + a.indexer_bytes_per_token * a.attention_layers
    ) / a.layers
    dense_bytes, mixture_bytes = _layer_weight_bytes(a, tp, rank_gpus, form)
    if a.blocks is not None:
        dense_bytes = mixture_bytes = _mean_layer_bytes(a, tp, rank_gpus, form)
    stages = []
    first = 0
    for index, layers in enumerate(stage_layers(a.layers, pp)):
        dense = min(max(0, a.dense_layers - first), layers)
        weights = dense * dense_bytes + (layers - dense) * mixture_bytes
        # Tied tables are one only where both ends are on the same GPUs: in a pipeline each end has its copy.
        tables = 1 if pp == 1 and a.tied_embeddings else (index == 0) + (index == pp - 1)
        stages.append(StageMemory(weights + tables * table_bytes, layers * kv_layer_bytes))
        first += layers
    return tuple(stages)


def _with_draft(
    architecture: Architecture, *, tp: int, pp: int, config: EngineConfig
) -> tuple[StageMemory, ...]:
    """`stage_memory`, and beside it the weights and the KV cache of what drafts tokens."""
    stages = stage_memory(architecture, tp=tp, pp=pp, config=config)
    speculation = config.speculation
    if speculation is None or not speculates(speculation, tp=tp, pp=pp):
        return stages
    draft = drafter(speculation, architecture)
    if draft is None:
        return stages
    # A prediction layer is part of the checkpoint and quantised with it; a draft model is a checkpoint of its
    # own.
    own = replace(config, quantization=config.quantization if speculation.method == "mtp" else None)
    (drafts,) = stage_memory(draft, tp=tp, pp=1, config=own)
    (stage,) = stages
    return (
        StageMemory(
            stage.weight_bytes + drafts.weight_bytes, stage.kv_bytes_per_token + drafts.kv_bytes_per_token
        ),
    )


def _layer_weight_bytes(a: Architecture, tp: int, rank_gpus: int, own: WeightFormat) -> tuple[float, float]:
    """Bytes of a dense layer and of a mixture layer on one GPU. EP holds as much as slices of all experts do."""
    mixer = _mixer_bytes(a, rank_gpus, own) / a.layers
    dense, mixture = _mlp_bytes(a, tp, own)
    return mixer + dense, mixer + mixture


def _mean_layer_bytes(a: Architecture, tp: int, rank_gpus: int, own: WeightFormat) -> float:
    dense, mixture = _mlp_bytes(a, tp, own)
    total = _mixer_bytes(a, rank_gpus, own) + a.dense_layers * dense + a.moe_layers * mixture
    return total / a.layers


def _mixer_bytes(a: Architecture, rank_gpus: int, own: WeightFormat) -> float:
    """Bytes of all layers' attention and recurrent mixers, and norms."""
    plain = BF16_BYTES if own.experts_only else own.bytes_per_weight
    attention = a.attention_layers * sum(g.weights for g in attention_gemms(a, rank_gpus))
    layers = a.recurrent.layers if a.recurrent else 0
    recurrent = layers * sum(g.weights for g in recurrent_gemms(a, rank_gpus))
    return (attention + recurrent) * plain + a.layers * 2 * a.hidden * BF16_BYTES


def _mlp_bytes(a: Architecture, tp: int, own: WeightFormat) -> tuple[float, float]:
    """Bytes of one dense MLP, and of one mixture with its router."""
    plain = BF16_BYTES if own.experts_only else own.bytes_per_weight
    dense = sum(g.weights for g in mlp_gemms(a, a.intermediate, tp)) * plain
    if a.moe is None:
        return dense, dense
    shared = sum(g.weights for g in mlp_gemms(a, a.moe.shared_intermediate, tp)) * plain
    routed = a.moe.count * sum(g.weights for g in mlp_gemms(a, a.moe.intermediate, tp)) * own.bytes_per_weight
    return dense, shared + routed + a.router_parameters * BF16_BYTES


def reserve_bytes(architecture: Architecture, *, tp: int, pp: int, config: EngineConfig) -> float:
    """Bytes that the engine keeps from the KV cache: fixed parts, peak activations of a full batch, logits, and
    recurrent layers' states of as many sequences as it admits.

    At the peak of a layer the residual, the normed input and the MLP's gate, up and product are alive;
    logits are FP32, once raw and once as probabilities.
    """
    a = architecture
    width = a.intermediate
    if a.moe is not None:
        width = max(width, a.moe.shared_intermediate, a.moe.per_token * a.moe.intermediate)
    ranks = config.attention_dp  # whose tokens all meet in the MLP
    token_bytes = (3 * a.hidden + a.mlp_matrices * width * ranks / tp) * BF16_BYTES
    rows = config.max_num_seqs
    if config.speculation is not None and speculates(config.speculation, tp=tp, pp=pp):
        rows *= config.speculation.tokens + 1
    logits_bytes = 2 * 4 * rows * a.vocab * ranks / tp
    shared = NCCL_BYTES if tp * pp > 1 else 0
    states = config.max_num_seqs * a.state_bytes_per_sequence() * ranks / (tp * pp)
    return FIXED_RESERVE_BYTES + shared + config.max_num_batched_tokens * token_bytes + logits_bytes + states


def available_bytes(gpu: Gpu, config: EngineConfig) -> float:
    """Bytes of one GPU that the engine is told to use."""
    return gpu.memory_bytes * config.gpu_memory_utilization


def kv_capacity_tokens(
    architecture: Architecture, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig
) -> int:
    """Tokens whose KV entries fit beside the weights on the fullest stage; negative where weights don't.

    Ranks of attention-DP hold different requests, so that their tokens add up.
    """
    free = available_bytes(gpu, config) - reserve_bytes(architecture, tp=tp, pp=pp, config=config)
    stages = _with_draft(architecture, tp=tp, pp=pp, config=config)
    fits = min(int((free - stage.weight_bytes) // stage.kv_bytes_per_token) for stage in stages)
    return fits * config.attention_dp


def needed_bytes(
    architecture: Architecture, *, tp: int, pp: int, config: EngineConfig, kv_tokens: int
) -> float:
    """Bytes needed on a GPU of the fullest stage, with a KV cache of `kv_tokens`."""
    stages = _with_draft(architecture, tp=tp, pp=pp, config=config)
    of_a_rank = kv_tokens / config.attention_dp
    largest = max(stage.weight_bytes + of_a_rank * stage.kv_bytes_per_token for stage in stages)
    return largest + reserve_bytes(architecture, tp=tp, pp=pp, config=config)
