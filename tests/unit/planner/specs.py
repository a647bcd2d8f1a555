"""A valid spec as plain values, for tests to break one thing of."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

STAGES = ("small", "medium", "large")

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


def small_spec() -> dict[str, Any]:
    """A valid spec that is planned in a second or two: small models on one node."""
    document = changed("cluster.pools.0.nodes", 1)
    for stage in document["stages"]:
        stage["model"] = document["stages"][0]["model"]
    return document


def write_spec(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "cascade.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def write_inputs(folder: Path) -> None:
    """A short trace and a small table, under the names that the valid spec has for them."""
    rows = ["arrival_s,input_tokens,output_tokens"]
    rows += [f"{i * 0.5},{100 + i},{20 + i}" for i in range(40)]
    (folder / "trace.csv").write_text("\n".join(rows))
    table = ["prompt_id,stage,score,quality,input_tokens,output_tokens"]
    table += [
        f"p{i},{stage},{50 + i},{60 + 10 * s},{100},{50 * (s + 1)}"
        for i in range(20)
        for s, stage in enumerate(STAGES)
    ]
    (folder / "quality.csv").write_text("\n".join(table))
