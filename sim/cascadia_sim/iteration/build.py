"""Cost tables of one replica, built from a model, a GPU, a shape and an engine's settings."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.drafting import drafting
from cascadia_sim.iteration.engine_config import LLAMA_CPP, TRTLLM, EngineConfig
from cascadia_sim.iteration.memory import DoesNotFit, available_bytes, kv_capacity_tokens, needed_bytes
from cascadia_sim.iteration.parallel import Split, check_split
from cascadia_sim.iteration.scaled_timing import scaled
from cascadia_sim.iteration.sharding import InvalidShape, check_shape, valid_shapes
from cascadia_sim.iteration.terms import (
    BY_CONTEXT,
    BY_PAIRS,
    BY_SEQUENCES,
    BY_TOKENS,
    Setting,
    charged,
    table,
)
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.quantization import weight_format

__all__ = ["DoesNotFit", "InvalidShape", "replica_timing", "valid_shapes"]

MIN_KV_TOKENS = 2048


@lru_cache(maxsize=1024)
def replica_timing(
    architecture: Architecture,
    gpu: Gpu,
    *,
    tp: int,
    pp: int,
    config: EngineConfig,
    gpus_per_node: int = 8,
    min_kv_tokens: int = MIN_KV_TOKENS,
) -> ReplicaTiming:
    """Cost tables and KV capacity of one replica on `tp` x `pp` GPUs; cached, so never write to its arrays.

    Raises `InvalidShape` where the model cannot be split so, and `DoesNotFit` where the weights and a KV
    cache of `min_kv_tokens` (of `max_model_len`, where that is more) exceed a GPU's memory.

    With pipelining the slowest stage sets the pace of all, so each stage is charged as long as it:
    layers count ceil(layers / pp) x pp, and the LM head once per stage where the split is even, once in all
    where the last stage has a layer less to make up for it.
    """
    split = Split(tp, config.attention_dp, config.enable_expert_parallel)
    check_split(architecture, split)
    check_shape(architecture, split.attention_tp, pp)
    if config.engine == LLAMA_CPP and tp * pp > 1:
        raise InvalidShape(
            "engine", f"{LLAMA_CPP} is started on one GPU", "use vllm or sglang to split a model"
        )
    if config.engine == TRTLLM:
        _check_trtllm(gpu, tp * pp, gpus_per_node)
    kv_tokens = _lane_kv_tokens(architecture, gpu, tp, pp, config, min_kv_tokens)
    setting = setting_of(architecture, gpu, tp=tp, pp=pp, config=config, gpus_per_node=gpus_per_node)
    one = np.ones(1)
    timing = ReplicaTiming(
        token_ps=table(BY_TOKENS, 1, config.max_num_batched_tokens * split.attention_dp, setting),
        sequence_ps=table(BY_SEQUENCES, 0, config.max_num_seqs * split.attention_dp, setting),
        context_ps=round(float(charged(BY_CONTEXT, one, setting)[0]) * PS_PER_S),
        pair_ps=float(charged(BY_PAIRS, one, setting)[0]) * PS_PER_S,
        kv_tokens=kv_tokens,
        block_size=config.block_size,
        max_num_seqs=config.max_num_seqs * split.attention_dp,
        max_num_batched_tokens=config.max_num_batched_tokens * split.attention_dp,
        chunked_prefill=config.enable_chunked_prefill,
        lanes=pp,
        client_ps=round(setting.gpu.efficiency.first_token_s * PS_PER_S),
        client_steps=setting.gpu.efficiency.first_token_steps,
    )
    times = config.times_on(gpu.name)
    timing = drafting(timing, setting, config)
    return timing if times == 1.0 else scaled(timing, times, times)


def setting_of(
    architecture: Architecture, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig, gpus_per_node: int
) -> Setting:
    """Setting that the terms of an iteration are worked out on: `gpu` as fast as its calibration says."""
    form = weight_format(config.quantization or architecture.quantization)
    fitted = replace(gpu, efficiency=calibration_of(architecture, gpu, config).efficiency)
    return Setting(
        architecture,
        fitted,
        form,
        tp=tp,
        pp=pp,
        gpus_per_node=gpus_per_node,
        kv_cache_dtype=config.kv_cache_dtype,
        attention_dp=config.attention_dp,
        expert_parallel=config.enable_expert_parallel,
    )


def calibration_of(architecture: Architecture, gpu: Gpu, config: EngineConfig) -> Calibration:
    """The one that `config` brings for this GPU, else the catalogue's nearest for its engine and precision."""
    own = config.calibration
    if own is not None and own.gpu in (gpu.name, gpu.generation):
        return own
    return find_calibration(gpu, config.engine, config.quantization or architecture.quantization or "bf16")


def _check_trtllm(gpu: Gpu, gpus: int, gpus_per_node: int) -> None:
    """Refuses a TensorRT-LLM replica across nodes: its processes meet through MPI, which Cascadia starts on no
    second node.
    """
    if gpu.generation == "cpu" or gpu.link == "xgmi":
        raise InvalidShape("engine", f"{TRTLLM} does not run on {gpu.name}", "use vllm or sglang there")
    if gpus_per_node % gpus:
        raise InvalidShape(
            "engine",
            f"{TRTLLM} is started in one piece, and replicas of {gpus} GPUs do not divide a node of {gpus_per_node}",
            "use vllm or sglang for larger replicas",
        )


def _lane_kv_tokens(
    architecture: Architecture, gpu: Gpu, tp: int, pp: int, config: EngineConfig, least: int
) -> int:
    """KV tokens of one of `pp` equal shares of the cache, in whole blocks."""
    lane = kv_capacity_tokens(architecture, gpu, tp=tp, pp=pp, config=config) // pp
    lane -= lane % config.block_size
    # Engines refuse to start where their whole cache cannot hold one request of the longest length.
    # A request's KV lies on one rank of attention-DP.
    least = max(least, config.max_model_len or 0) * config.attention_dp
    if config.engine == LLAMA_CPP:
        least = max(least, config.max_num_seqs * (config.max_model_len or 0))
    if lane * pp < least:
        whole_blocks = config.block_size * pp
        least = -(-least // whole_blocks) * whole_blocks
        needed = needed_bytes(architecture, tp=tp, pp=pp, config=config, kv_tokens=least)
        raise DoesNotFit(round(needed), round(available_bytes(gpu, config)))
    return lane
