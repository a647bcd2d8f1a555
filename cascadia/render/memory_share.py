"""How much of a GPU SGLang is to fill with weights and KV cache.

vLLM's `--gpu-memory-utilization` covers activations, captured graphs and communication buffers too; SGLang's
`--mem-fraction-static` does not. The difference is what the simulator reserves for them, so that both engines
get the KV cache that was planned with.
"""

from cascadia.render.models import is_path
from cascadia_sim.architectures_catalogue import UnknownModel, architecture
from cascadia_sim.engine_config import EngineConfig
from cascadia_sim.gpu import Gpu
from cascadia_sim.memory import reserve_bytes

UNKNOWN_RESERVE_SHARE = 0.05
"""For a model that is not in the catalogue."""

SMALLEST_SHARE = 0.05


def static_share(model: str, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig) -> float:
    """The value of `--mem-fraction-static`, 0-1."""
    reserve = _reserve_share(model, gpu, tp=tp, pp=pp, config=config)
    return max(config.gpu_memory_utilization - reserve, SMALLEST_SHARE)


def _reserve_share(model: str, gpu: Gpu, *, tp: int, pp: int, config: EngineConfig) -> float:
    if is_path(model):
        return UNKNOWN_RESERVE_SHARE
    try:
        known = architecture(model)
    except UnknownModel:
        return UNKNOWN_RESERVE_SHARE
    return reserve_bytes(known, tp=tp, pp=pp, config=config) / gpu.memory_bytes
