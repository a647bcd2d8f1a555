"""Configuration of one serving engine: the settings that decide what its scheduler does."""

from dataclasses import dataclass

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.iteration.speculation import Speculation

LLAMA_CPP = "llama.cpp"
TRTLLM = "trtllm"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Names follow vLLM's flags.

    `quantization` is None (the checkpoint's own precision, BF16 unless it says otherwise), "fp8", "awq-int4",
    "gptq-int4", "int8", "mxfp4", or a GGUF format such as "q4_k_m". `kv_cache_dtype` is "auto" (BF16) or "fp8".
    `block_size` is the KV cache's allocation unit in tokens. `prefix_cache_hit_rate` (0-1) is the share of a request's
    `prefix_tokens` that is found in the cache, so that prefill skips it. Where it is 0 and the trace tells which blocks
    its prompts share, the cache is simulated (`prefix_cache/prefix_cache.py`), unless `prefix_caching` is off.

    `enable_expert_parallel` spreads a mixture's experts over the GPUs whole, in place of a slice of each.
    `attention_dp` splits the tensor-parallel GPUs into as many ranks that attend to requests of their own
    (`parallel.py`); `max_num_seqs` and `max_num_batched_tokens` are then those of a rank.

    With `speculation` replicas without a pipeline draft tokens and check them (`speculation.py`).

    `engine` chooses the calibration from the catalogue; `calibration`, where given, stands in its
    place on the GPU that it was measured on. `learned`: by GPU, how many times as long as that everything takes, as a
    controller saw it while it served. "llama.cpp" runs on one GPU, or one core, and takes the whole KV cache of
    `max_num_seqs` longest requests when it starts. "trtllm" (TensorRT-LLM) is started whole, on one node.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    enable_chunked_prefill: bool = True
    gpu_memory_utilization: float = 0.9
    block_size: int = 16
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    prefix_cache_hit_rate: float = 0.0
    prefix_caching: bool = True
    max_model_len: int | None = None
    enable_expert_parallel: bool = False
    attention_dp: int = 1
    engine: str = "vllm"
    calibration: Calibration | None = None
    learned: tuple[tuple[str, float], ...] = ()
    speculation: Speculation | None = None

    @property
    def drafts_by_batch(self) -> bool:
        """Tells whether the engine takes a schedule of drafts by its sequences; else their number is fixed."""
        return self.engine == "vllm" and self.attention_dp == 1

    def times_on(self, gpu: str) -> float:
        """Factor by which everything takes longer on `gpu` than its calibration says."""
        return dict(self.learned).get(gpu, 1.0)
