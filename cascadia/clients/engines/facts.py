"""Facts that an engine tells about itself: who it is, how much it holds, whether others use it."""

import json
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.domain.errors import BadInput

# By the prefix of its metrics: the engine, and what it calls requests at work, waiting, and thrown out.
GAUGES = {
    "vllm:": ("vllm", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_preemptions_total"),
    "sglang:": ("sglang", "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_retracted_reqs"),
    "llamacpp:": ("llama.cpp", "llamacpp:requests_processing", "llamacpp:requests_deferred", ""),
}
# By who owns its models, where `/metrics` is no Prometheus text: TensorRT-LLM's is JSON.
OWNERS = {"llamacpp": "llama.cpp", "tensorrt_llm": "trtllm"}
SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Load:
    """Requests at work and waiting, and how many were preempted since the engine started."""

    running: int
    waiting: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Facts that could be learnt; None where the engine does not say. `kv_tokens` is what its cache holds.

    `root` is the checkpoint that the model was loaded from: a path on the engine's machine, or an id.
    """

    engine: str
    version: str
    root: str | None = None
    _: KW_ONLY
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    kv_tokens: int | None = None
    block_size: int | None = None


async def engine_facts(client: OpenAIEngine) -> EngineFacts:
    """Asks the engine. Raises `BadInput` where it does not serve the client's model."""
    model = _entry(await client.models(), client)
    metrics = samples(await client.text("/metrics") or "")
    engine = next((gauges[0] for p, gauges in GAUGES.items() if any(s.startswith(p) for s in metrics)), None)
    engine = engine or OWNERS.get(str(model.get("owned_by")), "openai")
    version = _object(await client.text("/version")).get("version")
    longest, slots, kv_tokens, block_size = model.get("max_model_len"), None, None, None
    if engine == "llama.cpp":
        props = _object(await client.text("/props"))
        slots = _count(props.get("total_slots"))
        version = version or props.get("build_info")
        longest = (props.get("default_generation_settings") or {}).get("n_ctx")
        # Without a cache shared by all slots, each has one of n_ctx tokens.
        kv_tokens = longest * slots if longest and slots else None
    for labels, _ in metrics.get("vllm:cache_config_info", ()):
        block_size = _count(labels.get("block_size"))
        kv_tokens = _count(labels.get("kv_cache_size_tokens"))
        if kv_tokens is None and (blocks := _count(labels.get("num_gpu_blocks"))) and block_size:
            kv_tokens = blocks * block_size
    for _, value in metrics.get("sglang:max_total_num_tokens", ()):
        kv_tokens = int(value)
    return EngineFacts(
        engine,
        str(version or "unknown"),
        model.get("root"),
        max_model_len=_count(longest),
        max_num_seqs=slots,
        kv_tokens=kv_tokens,
        block_size=block_size,
    )


async def load(client: OpenAIEngine) -> Load | None:
    """Load that the engine is busy with now; None where it does not say."""
    metrics = samples(await client.text("/metrics") or "")
    for prefix, (_, *names) in GAUGES.items():
        if any(name.startswith(prefix) for name in metrics):
            return Load(*(int(sum(value for _, value in metrics.get(name, ()))) for name in names))
    return None


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Prometheus' text format: of each metric its samples, (labels, value)."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match is None:
            continue
        name, labels, text_value = match.groups()
        try:
            value = float(text_value)
        except ValueError:
            continue
        found.setdefault(name, []).append((dict(LABEL.findall(labels or "")), value))
    return found


def _entry(models: list[dict[str, Any]], client: OpenAIEngine) -> Mapping[str, Any]:
    """Entry of the model in the engine's list. An engine that lists none is believed to serve it."""
    for entry in models:
        if client.model in (entry.get("id"), *(entry.get("aliases") or ())):
            return entry
    if models:
        served = ", ".join(str(entry.get("id")) for entry in models[:10])
        raise BadInput("--model", f"{client.root} serves no {client.model!r}", f"it serves: {served}")
    return {}


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int | None:
    try:
        count = int(str(value))
    except ValueError:
        return None
    return count if count > 0 else None
