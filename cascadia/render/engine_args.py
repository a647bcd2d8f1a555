"""The command line of one engine process.

Each flag is `--name=value`, so that a value that starts with a dash stays a value; llama.cpp takes the next argument as
the value, whatever it starts with. docs/reference/engines.md lists the flags and how they were checked.
"""

import json
from dataclasses import KW_ONLY, dataclass
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.render.engines import COMMAND
from cascadia.render.memory_share import free_share, static_share
from cascadia.render.models import is_quantised
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.engine_config import EngineConfig

_DEFAULT = EngineConfig()

Drafts = tuple[tuple[int, int, int], ...]
"""(from, to, tokens): so many are drafted for each sequence while so many decode."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's place among the `count` processes of a replica, which meet at `address`:`port`."""

    count: int
    rank: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Launch:
    """`weights` is what the engine loads (an id, a directory or a file); `model` is what the plan calls it; `drafts`: a
    group's in the plan; `bounds_thinking`: requests bring budgets of thought.
    """

    engine: str
    model: str
    weights: str
    _: KW_ONLY
    served_name: str
    config: EngineConfig
    gpu: Gpu
    tp: int
    pp: int
    host: str
    port: int
    drain_s: int
    ranks: Ranks | None = None
    drafts: Drafts = ()
    bounds_thinking: bool = False


def command(launch: Launch) -> tuple[str, ...]:
    """The program, without its arguments."""
    if launch.engine not in COMMAND:
        raise BadInput(
            f"stage {launch.served_name}",
            f"no engine is called {launch.engine!r}",
            "use one of " + ", ".join(COMMAND),
        )
    return COMMAND[launch.engine]


def arguments(launch: Launch) -> tuple[str, ...]:
    match launch.engine:
        case "vllm":
            return _vllm(launch)
        case "llama.cpp":
            return _llama_cpp(launch)
        case "trtllm":
            return _trtllm(launch)
        case _:
            return _sglang(launch)


def _vllm(launch: Launch) -> tuple[str, ...]:
    config, ranks = launch.config, launch.ranks
    if ranks is not None and config.attention_dp > 1:
        raise BadInput(
            f"stage {launch.served_name}: attention_dp",
            f"{config.attention_dp} ranks of a vLLM replica over {ranks.count} nodes cannot be started so",
            "use sglang, or a replica within a node",
        )
    tokens = max(config.max_num_batched_tokens, config.max_num_seqs)
    if not config.enable_chunked_prefill:
        # The engine refuses a batch that the longest prompt would not fit into.
        tokens = max(tokens, config.max_model_len or 0)
    flags = [
        launch.weights,
        f"--served-model-name={launch.served_name}",
        f"--host={launch.host}",
        f"--port={launch.port}",
        f"--tensor-parallel-size={launch.tp // config.attention_dp}",
        f"--pipeline-parallel-size={launch.pp}",
        f"--data-parallel-size={config.attention_dp}",
        f"--max-model-len={config.max_model_len}",
        f"--gpu-memory-utilization={config.gpu_memory_utilization:g}",
        f"--max-num-seqs={config.max_num_seqs}",
        f"--max-num-batched-tokens={tokens}",
        "--enable-chunked-prefill" if config.enable_chunked_prefill else "--no-enable-chunked-prefill",
    ]
    if config.block_size != _DEFAULT.block_size:
        flags.append(f"--block-size={config.block_size}")
    if config.kv_cache_dtype != "auto":
        flags.append(f"--kv-cache-dtype={_VLLM_KV.get(config.kv_cache_dtype, config.kv_cache_dtype)}")
    if config.enable_expert_parallel:
        flags.append("--enable-expert-parallel")
    if not config.prefix_caching:
        flags.append("--no-enable-prefix-caching")
    if _quantise_on_loading(launch):
        flags.append("--quantization=fp8_per_tensor")
    flags += _vllm_drafts(config, launch.drafts)
    if launch.bounds_thinking:
        # Without it every request with a budget is refused.
        flags.append(f"--reasoning-config={_json(_MARKS_OF_THINKING)}")
    flags.append(f"--shutdown-timeout={launch.drain_s}")
    if ranks is not None:
        flags += [
            "--distributed-executor-backend=mp",
            f"--nnodes={ranks.count}",
            f"--node-rank={ranks.rank}",
            f"--master-addr={ranks.address}",
            f"--master-port={ranks.port}",
        ]
        if ranks.rank != "0":
            flags.append("--headless")
    return tuple(flags)


def _sglang(launch: Launch) -> tuple[str, ...]:
    config, ranks = launch.config, launch.ranks
    # SGLang divides its limits by the ranks of attention-DP.
    tokens = config.max_num_batched_tokens * config.attention_dp
    chunk = tokens if config.enable_chunked_prefill else -1
    static = static_share(launch.model, launch.gpu, tp=launch.tp, pp=launch.pp, config=config)
    flags = [
        f"--model-path={launch.weights}",
        f"--served-model-name={launch.served_name}",
        f"--host={launch.host}",
        f"--port={launch.port}",
        f"--tp-size={launch.tp}",
        f"--pp-size={launch.pp}",
        f"--dp-size={config.attention_dp}",
        f"--context-length={config.max_model_len}",
        f"--mem-fraction-static={static:.3f}",
        f"--max-running-requests={config.max_num_seqs * config.attention_dp}",
        f"--chunked-prefill-size={chunk}",
        f"--max-prefill-tokens={tokens}",
        "--schedule-policy=fcfs",
        "--enable-metrics",
    ]
    if config.block_size != _DEFAULT.block_size:
        flags.append(f"--page-size={config.block_size}")
    if config.kv_cache_dtype != "auto":
        flags.append(f"--kv-cache-dtype={_SGLANG_KV.get(config.kv_cache_dtype, config.kv_cache_dtype)}")
    if config.attention_dp > 1:
        flags.append("--enable-dp-attention")
    if not config.prefix_caching:
        flags.append("--disable-radix-cache")
    if config.enable_expert_parallel:
        flags.append(f"--ep-size={launch.tp}")
    if _quantise_on_loading(launch):
        flags.append("--quantization=fp8")
    flags += _sglang_drafts(config, launch.drafts)
    if ranks is not None:
        flags += [
            f"--nnodes={ranks.count}",
            f"--node-rank={ranks.rank}",
            f"--dist-init-addr={ranks.address}:{ranks.port}",
        ]
    return tuple(flags)


def _trtllm(launch: Launch) -> tuple[str, ...]:
    """Arguments of TensorRT-LLM. It answers under any name, so none is given; FP8 and NVFP4 it reads from the
    checkpoint.
    """
    config = launch.config
    if launch.ranks is not None:
        raise BadInput(
            f"stage {launch.served_name}: engine",
            f"a replica of TensorRT-LLM in {launch.ranks.count} pieces needs MPI, which is not started here",
            "plan again, so that it fits a node, or use vllm or sglang",
        )
    tokens = max(config.max_num_batched_tokens, config.max_num_seqs)
    if not config.enable_chunked_prefill:
        tokens = max(tokens, config.max_model_len or 0)
    share = free_share(launch.model, launch.gpu, tp=launch.tp, pp=launch.pp, config=config)
    return (
        launch.weights,
        "--backend=pytorch",
        f"--host={launch.host}",
        f"--port={launch.port}",
        f"--tp_size={launch.tp}",
        f"--pp_size={launch.pp}",
        *((f"--ep_size={launch.tp}",) if config.enable_expert_parallel else ()),
        f"--max_seq_len={config.max_model_len}",
        f"--max_batch_size={config.max_num_seqs}",
        f"--max_num_tokens={tokens}",
        f"--kv_cache_free_gpu_memory_fraction={share:.3f}",
        *(("--enable_chunked_prefill",) if config.enable_chunked_prefill else ()),
    )


def _llama_cpp(launch: Launch) -> tuple[str, ...]:
    """A slot for each sequence, with a cache for the longest request; on a CPU one thread, on a GPU all layers."""
    config = launch.config
    if launch.weights == launch.model:
        raise BadInput(
            f"stage {launch.served_name}: weights",
            "llama.cpp loads a GGUF file, and the plan names none",
            "write weights: FILE.gguf, or owner/name-GGUF:Q4_K_M, into the spec and plan again",
        )
    on_cpu = launch.gpu.generation == "cpu"
    return (
        "--model" if launch.weights.endswith(".gguf") else "--hf-repo",
        launch.weights,
        *("--alias", launch.served_name),
        *("--host", launch.host),
        *("--port", str(launch.port)),
        *("--parallel", str(config.max_num_seqs)),
        *("--ctx-size", str(config.max_num_seqs * (config.max_model_len or 0))),
        *("--batch-size", str(config.max_num_batched_tokens)),
        *(("--threads", "1") if on_cpu else ("--n-gpu-layers", "999")),
        # A slot keeps the prompt it served last; more would be memory that nobody planned.
        *("--cache-ram", "0"),
        "--metrics",
    )


def _vllm_drafts(config: EngineConfig, drafts: Drafts) -> list[str]:
    """One flag with a JSON object, and in it the schedule where their number changes with the sequences'."""
    speculation = config.speculation
    if speculation is None or not drafts:
        return []
    told: dict[str, object] = {
        "method": speculation.method,
        "num_speculative_tokens": max(tokens for _, _, tokens in drafts),
    }
    if speculation.model is not None:
        told["model"] = speculation.model
    if config.drafts_by_batch and len(drafts) > 1:
        told["num_speculative_tokens_per_batch_size"] = [list(part) for part in drafts]
    return [f"--speculative-config={_json(told)}"]


def _sglang_drafts(config: EngineConfig, drafts: Drafts) -> list[str]:
    """A chain of drafts; SGLang counts the token that the model itself adds among its draft tokens."""
    speculation = config.speculation
    if speculation is None or not drafts:
        return []
    tokens = max(tokens for _, _, tokens in drafts)
    flags = [f"--speculative-algorithm={_SGLANG_ALGORITHMS[speculation.method]}"]
    if speculation.model is not None:
        flags.append(f"--speculative-draft-model-path={speculation.model}")
    if speculation.method != "ngram":
        flags += [f"--speculative-num-steps={tokens}", "--speculative-eagle-topk=1"]
    return [*flags, f"--speculative-num-draft-tokens={tokens + 1}"]


_SGLANG_ALGORITHMS = {"ngram": "NGRAM", "draft_model": "STANDALONE", "eagle3": "EAGLE3", "mtp": "NEXTN"}
_MARKS_OF_THINKING = {"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}
_VLLM_KV = {"bf16": "bfloat16"}
_SGLANG_KV = {"fp8": "fp8_e4m3"}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _quantise_on_loading(launch: Launch) -> bool:
    """Tells whether the engine quantises: only FP8 is made from BF16 weights at load time; all else an engine
    reads from the checkpoint itself.

    Both engines refuse a method that differs from the checkpoint's own, so none is given where it has one.
    """
    return launch.config.quantization == "fp8" and not is_quantised(launch.weights)
