"""Share of a GPU that SGLang is to fill with weights and KV cache, and TensorRT-LLM with KV cache alone.

vLLM's `--gpu-memory-utilization` covers activations, captured graphs and communication buffers too; SGLang's
`--mem-fraction-static` does not. The difference is what the simulator reserves for them, so that both engines
get the KV cache that was planned with.
"""

from cascadia.render.models import is_path
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import reserve_bytes, stage_memory
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import UnknownModel, architecture

UNKNOWN_RESERVE_SHARE = 0.05
"""For a model that is not in the catalogue."""

SMALLEST_SHARE = 0.05


def static_share(model: str, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig) -> float:
    """The value of `--mem-fraction-static`, 0-1."""
    reserve = _reserve_share(model, gpu, tp=tp, pp=pp, config=config)
    return max(config.gpu_memory_utilization - reserve, SMALLEST_SHARE)


def free_share(model: str, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig) -> float:
    """The value of `--kv_cache_free_gpu_memory_fraction`, 0-1: of what weights and activations leave free.

    For a model that is not in the catalogue, the planned share of all memory, which keeps less free than was planned.
    """
    known = None if is_path(model) else _known(model)
    if known is None:
        return config.gpu_memory_utilization
    weights = max(stage.weight_bytes for stage in stage_memory(known, tp=tp, pp=pp, config=config))
    taken = weights + reserve_bytes(known, tp=tp, pp=pp, config=config)
    planned = gpu.memory_bytes * config.gpu_memory_utilization - taken
    return max(planned / (gpu.memory_bytes - taken), SMALLEST_SHARE)


def _known(model: str) -> Architecture | None:
    try:
        return architecture(model)
    except UnknownModel:
        return None


def _reserve_share(model: str, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig) -> float:
    known = None if is_path(model) else _known(model)
    if known is None:
        return UNKNOWN_RESERVE_SHARE
    return reserve_bytes(known, tp=tp, pp=pp, config=config) / gpu.memory_bytes
