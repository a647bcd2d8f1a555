"""A plan of three little models that answer in one pass, made by the planner itself."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cascadia.planner.policies.planned import OnePassPlan, plan_one_pass
from cascadia.planner.policies.read import read_asked
from tests.unit.onepass.little_model import little_model

NAMES = ("tiny", "small", "large")
SPEC = """\
stages:
  - {name: tiny, model: models/m-1, task: classify, engine: onnxruntime, group: guard}
  - {name: small, model: models/m-2, task: classify, engine: onnxruntime, group: guard}
  - {name: large, model: models/m-4, task: classify, engine: onnxruntime, group: guard}
latency: family.json
workers: [{kind: core, most: 2, usd_per_hour: 0.05}]
workload: {rate_rps: 300, requests: 1000}
objective: {minimize: cost, quality_min: 78, latency_max_s: 0.1, late_max: 1%}
"""
RANKED = SPEC.replace("task: classify", "task: rerank").replace(
    "requests: 1000}", "requests: 1000, documents: 7}"
)
"""The same of models that rank seven documents: each ranking is a batch of eight texts, and goes alone."""
RANKED = RANKED.replace("rate_rps: 300", "rate_rps: 45").replace("latency_max_s: 0.1", "latency_max_s: 0.2")


def family(names: Sequence[str] = ("m-1", "m-2", "m-4")) -> str:
    """What `cascadia engine measure --out family.json` writes."""
    models = []
    for name, accuracy, alone_s in zip(names, (70.0, 76.0, 82.0), (0.002, 0.004, 0.010), strict=True):
        batch_s = [alone_s * (0.4 + 0.6 * size) for size in range(1, 17)]
        drawn_s = [[at_most_s * (0.7 + 0.03 * at) for at in range(11)] for at_most_s in batch_s]
        told = {"name": name, "accuracy": accuracy, "texts": 2000}
        models.append(told | {"p95_s": batch_s, "drawn_s": drawn_s})
    return json.dumps({"models": models})


def written(folder: Path, spec: str = SPEC) -> Path:
    """The spec's path, with all files that it names."""
    if not (folder / "models").exists():
        for layers, name in ((1, "m-1"), (1, "m-2"), (2, "m-4")):
            little_model(folder / "models", name, layers=layers)
    (folder / "family.json").write_text(family())
    (folder / "guard.yaml").write_text(spec)
    return folder / "guard.yaml"


@cache
def _shared() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="one-pass-")


@cache
def planned(spec: str = SPEC) -> OnePassPlan:
    """The plan of `spec`, made once for all tests."""
    folder = Path(_shared().name)
    return plan_one_pass(read_asked(written(folder, spec)), folder, dict.fromkeys(NAMES, 8))
