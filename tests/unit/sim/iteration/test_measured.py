"""Predictions beside measurements, read in place: the medians that docs/benchmarks/fidelity.md states."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from cascadia.reproduce.simulator_table import mean_error, table
from cascadia_sim.calibration.catalogue import known_calibrations
from cascadia_sim.fit.calibration_cells import Measured
from cascadia_sim.fit.calibration_fit import relative_errors
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.benchmarks.fidelity.parallel_order import compared, share_right
from tests.benchmarks.fidelity.sets import all_sets
from tests.data import data_path

pytestmark = pytest.mark.data

Row = dict[str, str]


def rows(path: Path) -> Iterator[Row]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def timing(model: str, card: str, tp: int, quantization: str, engine: str) -> ReplicaTiming:
    """Tables without the memory limit: the measured engines had their own."""
    config = EngineConfig(
        max_num_seqs=1024, max_num_batched_tokens=16384, quantization=quantization, engine=engine
    )
    roomy = replace(gpu(card), memory_bytes=10**13)
    return replica_timing(architecture(model), roomy, tp=tp, pp=1, config=config)


def decode_ms(t: ReplicaTiming, batch: int, context: float) -> float:
    return float(t.token_ps[batch] + t.sequence_ps[batch] + t.context_ps * batch * context) / 1e9


def steady_ratio(row: Row, model: str) -> float | None:
    """Predicted over measured time per output token at fixed concurrency; None where prefill is over half.

    In steady state each of `batch` requests is prefilled once while it writes its output, and that time falls
    on all of them.
    """
    batch, prompt, output = (int(row[k]) for k in ("batch_size", "isl", "osl"))
    t = timing(model, row["system"].replace("_", "-"), int(row["tp_size"]), "fp8", row["backend"])
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


SETS = [
    "a100-40gb-trtllm-2024-bf16",
    "a100-40gb-vllm-2024-bf16",
    "h100-sxm-trtllm-2024-bf16",
    "h100-sxm-vllm-2024-bf16",
    "gh200-vllm-2024-bf16",
    "a100-sxm-vidur-bf16",
    "h100-sxm-vidur-bf16",
]


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("name", SETS)
def test_measured_iterations_are_met_as_well_as_their_calibration_says(name: str) -> None:
    data_path("perf/llm_inference_bench.csv")
    entry = next(c for c in known_calibrations() if c.name == name)
    measured = next(s for s in all_sets() if s.name == name)
    errors = np.abs(relative_errors(Measured(measured.cells, gpu(measured.gpu)), entry.efficiency))
    assert len(errors) == entry.fit.points
    assert errors.mean() == pytest.approx(entry.fit.mean_error, abs=0.005)
    assert errors.mean() <= 0.045


@pytest.mark.parametrize("name", [n for n in SETS if n.startswith("a100") or n.endswith("vllm-2024-bf16")])
def test_a_model_that_the_fit_has_not_seen_is_met_within_5_percent(name: str) -> None:
    entry = next(c for c in known_calibrations() if c.name == name)
    assert entry.fit.held_out_mean_error is not None
    assert entry.fit.held_out_mean_error <= 0.05


def test_parallel_configurations_come_in_their_measured_order() -> None:
    count, share = share_right(compared())
    assert count > 200
    assert share >= 0.9


def test_the_papers_configurations_but_for_one_scale_within_8_percent_and_the_same_winner() -> None:
    _, rows = table()
    assert mean_error(rows) <= 0.08
    assert max(rows, key=lambda row: row.predicted_rps).shape == (2, 2, 2)
