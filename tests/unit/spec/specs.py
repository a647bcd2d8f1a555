"""A valid spec as plain values, for tests to break one thing of."""

from copy import deepcopy
from typing import Any

_VALID: dict[str, Any] = {
    "stages": [
        {"name": "small", "model": "meta-llama/Llama-3.1-8B-Instruct", "engine": "sglang"},
        {"name": "medium", "model": "meta-llama/Llama-3.1-70B-Instruct"},
        {"name": "large", "model": "meta-llama/Llama-3.1-405B-Instruct-FP8"},
    ],
    "cluster": {"pools": [{"gpu": "h100-sxm", "nodes": 4, "gpus_per_node": 8, "usd_per_gpu_hour": 2.67}]},
    "judge": {"kind": "llm", "model": "meta-llama/Llama-3.1-8B-Instruct", "placement": "self-hosted"},
    "workload": {"trace": "trace.csv", "rate_rps": 6.0},
    "quality": {"table": "quality.csv", "confidence": 0.95},
    "objective": {"minimize": "latency", "quantile": 0.95, "quality_min": 60},
}


def valid_spec() -> dict[str, Any]:
    return deepcopy(_VALID)


def changed(path: str, value: object) -> dict[str, Any]:
    """A valid spec with `value` at a path such as `stages.1.model`."""
    document = valid_spec()
    *way, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = document
    for key in way:
        place = place[key]
    place[last] = value
    return document


def without(path: str) -> dict[str, Any]:
    """A valid spec that lacks what stands at `path`."""
    document = valid_spec()
    *way, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = document
    for key in way:
        place = place[key]
    del place[last]
    return document
