"""Cascades made from the public data, as spec files in a scratch folder: what a user would have written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.quality_file import write_quality
from cascadia.reproduce.public_data import data_path, rows

CHARACTERS_PER_TOKEN = 4.0


def wildbench(models: Sequence[str], names: Sequence[str]) -> QualityTable:
    """WildBench: GPT-4o's 1-10 scores as both score and quality, scaled to 0-100."""
    of = {
        (r["model"], r["session_id"]): r for r in rows("quality/wildbench_scores.csv") if r["model"] in models
    }
    ids = sorted({i for _, i in of if all((m, i) in of for m in models)})
    score = np.array([[(float(of[m, i]["score"]) - 1) / 9 * 100 for i in ids] for m in models])
    out = np.array([[float(of[m, i]["output_chars"]) / CHARACTERS_PER_TOKEN for i in ids] for m in models])
    tokens = np.maximum(np.rint(out), 1)
    return QualityTable(
        tuple(ids),
        tuple(names),
        score,
        quality=score.copy(),
        input_tokens=np.full_like(tokens, 512.0),
        output_tokens=tokens,
    )


def gsm8k(
    models: Sequence[str], names: Sequence[str], *, questions: int | None = None, seed: int = 0
) -> QualityTable:
    """GSM8K: quality is the truth (0 or 100); the gate's score is a noisy judge of it (AUC about 0.85), seeded.

    The data has no judge; a made one keeps gate and truth apart.
    """
    of = {
        (r["model"], r["question_id"]): r for r in rows("quality/zeroeval_gsm8k.csv") if r["model"] in models
    }
    ids = sorted({i for _, i in of if all((m, i) in of for m in models)})
    ids = ids[:questions] if questions else ids
    truth = np.array([[float(of[m, i]["correct"]) * 100 for i in ids] for m in models])
    noise = np.random.default_rng(seed).normal(size=truth.shape)
    score = np.clip(np.rint(50 + np.where(truth > 50, 15, -15) + 20 * noise), 0, 100)
    out = np.array([[float(of[m, i]["output_chars"]) / CHARACTERS_PER_TOKEN for i in ids] for m in models])
    read = np.array([[float(of[m, i]["prompt_chars"]) / CHARACTERS_PER_TOKEN for i in ids] for m in models])
    return QualityTable(
        tuple(ids),
        tuple(names),
        score,
        quality=truth,
        input_tokens=np.maximum(np.rint(read), 1),
        output_tokens=np.maximum(np.rint(out), 1),
    )


LLAMA = ("Meta-Llama-3.1-8B-Instruct", "Meta-Llama-3.1-70B-Instruct", "Llama-3.1-405B-Instruct-Turbo")


@dataclass(frozen=True)
class Case:
    """A spec in `folder`; `change` writes it anew with other values."""

    folder: Path
    spec: dict[str, object]

    @property
    def path(self) -> Path:
        path = self.folder / "cascade.yaml"
        path.write_text(yaml.safe_dump(self.spec, sort_keys=False))
        return path


def case(
    folder: Path,
    table: QualityTable,
    stages: Sequence[dict[str, object]],
    *,
    trace: str = "traces/azure_2023_conv.csv",
    rate_rps: float = 10.0,
    pools: Sequence[dict[str, object]] = ({"gpu": "h100-sxm", "nodes": 4, "gpus_per_node": 8},),
    judge: dict[str, object] | None = None,
    objective: dict[str, object] | None = None,
    max_requests: int | None = None,
) -> Case:
    folder.mkdir(parents=True, exist_ok=True)
    write_quality(table, folder / "quality.parquet")
    workload: dict[str, object] = {"trace": str(data_path(trace)), "rate_rps": rate_rps}
    if max_requests:
        workload["max_requests"] = max_requests
    return Case(
        folder,
        {
            "stages": list(stages),
            "cluster": {"pools": [dict(pool) for pool in pools]},
            "judge": judge
            or {"kind": "llm", "model": "meta-llama/Llama-3.1-8B-Instruct", "placement": "self-hosted"},
            "workload": workload,
            "quality": {"table": "quality.parquet", "confidence": 0.95},
            "objective": objective or {"minimize": "latency", "quantile": 0.95, "quality_min": 90},
        },
    )


LLAMA_STAGES = (
    {"name": "small", "model": "meta-llama/Llama-3.1-8B-Instruct"},
    {"name": "medium", "model": "meta-llama/Llama-3.1-70B-Instruct"},
    {"name": "large", "model": "meta-llama/Llama-3.1-405B-Instruct", "quantization": "fp8"},
)


def reference_case(folder: Path, *, nodes: int = 4, questions: int = 1000, **changes: object) -> Case:
    """Llama-3.1 8B, 70B, 405B-FP8 on H100s, Azure's conversations at 10 requests/s: what several benchmarks share."""
    table = gsm8k(LLAMA, ("small", "medium", "large"), questions=questions)
    pools = [{"gpu": "h100-sxm", "nodes": nodes, "gpus_per_node": 8}]
    return case(folder, table, LLAMA_STAGES, **{"pools": pools, **changes})  # type: ignore[arg-type]
