"""Predictions beside measurements, read in place: the medians that docs/models/simulator.md states."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from cascadia_sim.architectures_catalogue import architecture
from cascadia_sim.build import replica_timing
from cascadia_sim.engine_config import EngineConfig
from cascadia_sim.gpus_catalogue import gpu
from cascadia_sim.timing import ReplicaTiming
from tests.data import data_path

pytestmark = pytest.mark.data

Row = dict[str, str]


def rows(path: Path) -> Iterator[Row]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def timing(model: str, card: str, tp: int, quantization: str | None = None) -> ReplicaTiming:
    """Tables without the memory limit: the measured engines had their own."""
    config = EngineConfig(max_num_seqs=1024, max_num_batched_tokens=16384, quantization=quantization)
    roomy = replace(gpu(card), memory_bytes=10**13)
    return replica_timing(architecture(model), roomy, tp=tp, pp=1, config=config)


def decode_ms(t: ReplicaTiming, batch: int, context: float) -> float:
    return float(t.token_ps[batch] + t.sequence_ps[batch] + t.context_ps * batch * context) / 1e9


def prefill_ms(t: ReplicaTiming, prompts: int, tokens: int) -> float:
    total, last = prompts * tokens, len(t.token_ps) - 1
    beyond = max(0, total - last) * int(t.token_ps[last] - t.token_ps[last - 1])
    pairs = prompts * tokens * (tokens + 1) / 2
    return float(t.token_ps[min(total, last)] + beyond + t.pair_ps * pairs) / 1e9


def steady_ratio(row: Row, model: str) -> float | None:
    """Predicted over measured time per output token at fixed concurrency; None where prefill is over half.

    In steady state each of `batch` requests is prefilled once while it writes its output, and that time falls
    on all of them.
    """
    batch, prompt, output = (int(row[k]) for k in ("batch_size", "isl", "osl"))
    t = timing(model, row["system"].replace("_", "-"), int(row["tp_size"]), "fp8")
    prefill = prompt * float(t.token_ps[8192]) / 8192 / 1e9 + t.pair_ps * prompt**2 / 2e9
    predicted = decode_ms(t, batch, prompt + output / 2) + batch * prefill / output
    return predicted / float(row["silicon_tpot_ms"]) if batch * prefill / output < predicted / 2 else None


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_vllm_on_h200_in_fp8_within_12_percent(tp: int) -> None:
    ratios = [
        ratio
        for row in rows(data_path("perf/aiconfigurator_endtoend_h200_b200.csv"))
        if (row["backend"], row["model_path"]) == ("vllm", "meta-llama/Llama-3.1-70B")
        and (row["system"], row["precision"], row["mode"]) == ("h200_sxm", "fp8", "agg")
        and row["tp_size"] == str(tp)
        and (ratio := steady_ratio(row, row["model_path"])) is not None
    ]
    assert len(ratios) >= 10
    assert median(ratios) == pytest.approx(1, abs=0.12)


def test_deepseek_r1_on_eight_h200s_under_sglang_within_12_percent() -> None:
    ratios = [
        ratio
        for row in rows(data_path("perf/aiconfigurator_endtoend_h200_b200.csv"))
        if (row["backend"], row["model_path"]) == ("sglang", "deepseek-ai/DeepSeek-R1")
        and (row["system"], row["mode"], row["tp_size"]) == ("h200_sxm", "agg", "8")
        and row["attention_dp_size"] in ("", "1")
        and (ratio := steady_ratio(row, row["model_path"])) is not None
    ]
    assert len(ratios) >= 20
    assert median(ratios) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize(
    ("hardware", "card", "model", "tp", "tolerance"),
    [
        ("Nvidia A100 GPU", "a100-40gb", "meta-llama/Meta-Llama-3-8B", 1, 0.10),
        ("Nvidia A100 GPU", "a100-40gb", "meta-llama/Meta-Llama-3-70B", 4, 0.10),
        ("Nvidia H100 GPU", "h100-sxm", "meta-llama/Meta-Llama-3-8B", 1, 0.15),
        ("Nvidia H100 GPU", "h100-sxm", "meta-llama/Meta-Llama-3-70B", 4, 0.15),
    ],
)
def test_tensorrt_llm_in_bf16(hardware: str, card: str, model: str, tp: int, tolerance: float) -> None:
    t = timing(model, card, tp)
    ratios = []
    for row in rows(data_path("perf/llm_inference_bench.csv")):
        if (row["Hardware"], row["Framework"], row["Model"]) != (hardware, "TensorRT-LLM", model):
            continue
        length, batch = int(row["Input Output Length"]), int(row["Batch Size"])
        if int(row["Num of Hardware"]) != tp or batch > 64:
            continue
        predicted = prefill_ms(t, batch, length) + length * decode_ms(t, batch, 1.5 * length)
        ratios.append(predicted / 1e3 / float(row["Latency"]))
    assert len(ratios) >= 9
    assert median(ratios) == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize(
    ("model", "card"),
    [
        ("meta-llama/Meta-Llama-3-8B", "a100"),
        ("meta-llama/Llama-2-70b-hf", "a100"),
        ("meta-llama/Llama-2-70b-hf", "h100"),
        ("Qwen/Qwen-72B", "a100"),
    ],
)
def test_vidurs_iterations_on_one_gpu_within_12_percent(phase: str, model: str, card: str) -> None:
    t, own_s = timing(model, card, 1), gpu(card).efficiency.iteration_s
    ratios = []
    for row in rows(data_path("perf/vidur_simulations/iteration_times.csv")):
        if (row["phase"], row["model"], row["gpu"], row["tp"]) != (phase, model, card, "1"):
            continue
        batch, new, context = int(row["batch"]), int(row["new_tokens"]), int(row["context"])
        # Vidur's figures leave out the LM head and the engine's own work.
        if phase == "decode":
            predicted = float(t.token_ps[batch] + t.context_ps * batch * context) / 1e9
        else:
            predicted = prefill_ms(t, 1, new)
        ratios.append((predicted - own_s * 1e3) / float(row["iter_ms"]))
    assert len(ratios) >= 9
    assert median(ratios) == pytest.approx(1, abs=0.12)
