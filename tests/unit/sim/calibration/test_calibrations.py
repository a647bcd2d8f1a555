"""The catalogue of calibrations, its order of fallback, its files, and the fit that makes its entries."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from cascadia_sim.calibration.calibration import BadCalibration, Calibration
from cascadia_sim.calibration.catalogue import (
    closest_calibration,
    find_calibration,
    generic_calibration,
    known_calibrations,
)
from cascadia_sim.calibration.file import as_data, calibration_from, read_calibration, write_calibration
from cascadia_sim.fit.calibration_cells import Cell, Measured
from cascadia_sim.fit.calibration_fit import SHARES, fit, held_out, relative_errors
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.hardware.gpu import Efficiency
from cascadia_sim.iteration.build import calibration_of, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

H100 = gpu("h100")
GENERIC = generic_calibration(H100, "vllm", "bf16")
MODELS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-2-7b-hf")


def cells(truth: Efficiency, models: tuple[str, ...] = MODELS) -> list[Cell]:
    """Decode and prefill iterations of several shapes, that take what `truth` says."""
    without = [
        Cell(
            architecture(model),
            tp,
            1,
            tokens=n,
            sequences=sequences,
            context=context,
            pairs=pairs,
            seconds=1.0,
        )
        for model in models
        for tp in (1, 2, 4)
        for n, sequences, context, pairs in [
            *((b, b, b * c, 0.0) for b in (1, 16, 64, 256) for c in (256, 4096)),
            *((n, 1, 0.0, n * (n + 1) / 2) for n in (512, 2048, 8192)),
        ]
    ]
    seconds = Measured(without, H100).predicted(truth)
    return [replace(c, seconds=float(s)) for c, s in zip(without, seconds, strict=True)]


@pytest.mark.parametrize("entry", known_calibrations(), ids=lambda c: c.name)
def test_an_entry_says_where_it_is_from_how_well_it_fits_and_where_it_holds(entry: Calibration) -> None:
    assert entry.source
    assert entry.engine_version
    assert entry.fit.points > 0
    assert 0 < entry.fit.mean_error < 0.3
    assert 0 < entry.fit.p90_error < 0.6
    assert entry.valid.tokens[1] > entry.valid.tokens[0]
    assert entry.valid.tp[0] >= 1
    for field in fields(Efficiency):
        value = getattr(entry.efficiency, field.name)
        assert value >= 0
        assert value <= 1 or field.name not in SHARES


def test_no_two_entries_have_a_name_in_common() -> None:
    names = [c.name for c in known_calibrations()]
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.parametrize("card", known_gpus())
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llama.cpp", "an engine of tomorrow"])
@pytest.mark.parametrize("precision", ["bf16", "fp8", "awq-int4"])
def test_there_is_a_calibration_for_everything(card: str, engine: str, precision: str) -> None:
    found = find_calibration(gpu(card), engine, precision)
    own = gpu(found.gpu).generation if found.gpu in known_gpus() else found.gpu
    assert own == gpu(card).generation


def test_what_is_found_says_how_near_it_is() -> None:
    exact = closest_calibration(gpu("h200"), "trtllm", "fp8")
    assert exact.calibration in known_calibrations()
    assert exact.match == "h200-sxm, this engine, this precision, served"
    precision = closest_calibration(gpu("b200"), "sglang", "bf16")
    assert precision.match == "b200-sxm, this engine, another precision (fp8), served"
    engine = closest_calibration(H100, "sglang", "bf16")
    assert engine.match == "h100-sxm, another engine (vllm), this precision, partly served"
    relative = closest_calibration(gpu("h20"), "trtllm", "fp8")
    assert relative.match == "generation hopper (h200-sxm), this engine, this precision, served"
    generic = closest_calibration(gpu("mi300x"), "an engine of tomorrow", "bf16")
    assert generic.match == "generic for cdna3"
    assert generic.calibration.efficiency == gpu("mi300x").efficiency


def test_todays_vllm_stands_before_that_of_2024() -> None:
    for card in ("a100", "h100", "gh200"):
        assert "2024" not in find_calibration(gpu(card), "vllm", "bf16").engine_version


def test_a_simulators_iterations_are_found_only_under_their_own_name() -> None:
    assert find_calibration(H100, "vidur", "bf16").engine == "vidur"
    for card in known_gpus():
        assert find_calibration(gpu(card), "vllm", "bf16").engine != "vidur"


def test_a_config_brings_its_own_calibration_or_names_the_engine() -> None:
    a = architecture(MODELS[0])
    slow = replace(GENERIC, efficiency=replace(GENERIC.efficiency, iteration_s=1.0))
    assert calibration_of(a, H100, EngineConfig(calibration=slow)) is slow
    assert calibration_of(a, H100, EngineConfig(engine="trtllm", quantization="fp8")).engine == "trtllm"
    timing = replica_timing(a, H100, tp=1, pp=1, config=EngineConfig(calibration=slow))
    assert timing.token_ps[1] > 1e12


def test_a_calibration_written_is_read_back_whole(tmp_path: Path) -> None:
    for entry in known_calibrations()[:3]:
        write_calibration(entry, tmp_path / "c.json")
        assert read_calibration(tmp_path / "c.json") == entry


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("engine",), "", "engine: '' is no text"),
        (("fit", "points"), -1, "fit.points: -1 is no count"),
        (("fit", "mean_error"), None, "fit.mean_error: null"),
        (("valid", "tp"), [4, 2], "valid.tp: [4, 2] is no range"),
        (("valid", "batch"), [1.5, 2], "valid.batch: [1.5, 2] is no range"),
        (("efficiency", "gemm_hbm"), "fast", "efficiency.gemm_hbm: 'fast' is not a number"),
        (("efficiency", "kernel_s"), -1e-6, "efficiency.kernel_s: -1e-06 is not a number of 0 or more"),
        (("efficiency", "colour"), 1.0, "efficiency: unknown: colour"),
        (("efficiency", "eager_layer_s"), 2e-4, "efficiency.eager_layer_s: 0.0002, but no longer simulated"),
        (("valid",), [], "valid: list in place of an object"),
    ],
)
def test_a_bad_calibration_is_refused_at_its_place(place: tuple[str, ...], value: object, told: str) -> None:
    data = json.loads(json.dumps(as_data(known_calibrations()[0])))
    at = data
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(BadCalibration) as refusal:
        calibration_from(data, "mine.json")
    assert str(refusal.value).startswith("mine.json")
    assert told in str(refusal.value)


def test_a_constant_that_was_given_up_is_passed_over_where_it_did_nothing() -> None:
    data = json.loads(json.dumps(as_data(known_calibrations()[0])))
    data["efficiency"] |= {"eager_s": 0.0, "eager_layer_s": 0}
    assert calibration_from(data, "mine.json") == known_calibrations()[0]


def test_what_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCalibration, match="cannot be read"):
        read_calibration(tmp_path / "none.json")
    (tmp_path / "half.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadCalibration, match="is not JSON"):
        read_calibration(tmp_path / "half.json")
    data = as_data(known_calibrations()[0])
    del data["source"]
    with pytest.raises(BadCalibration, match="source missing"):
        calibration_from(data, "mine.json")


@pytest.mark.slow
def test_a_fit_says_which_batches_and_which_sizes_of_model_it_saw(tmp_path: Path) -> None:
    found = fit(cells(GENERIC.efficiency), GENERIC, H100)
    sizes = sorted(architecture(model).parameters for model in MODELS)
    assert found.valid.batch == (1, 256)
    assert found.valid.parameters == (sizes[0], sizes[-1])
    write_calibration(found, tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json") == found


@pytest.mark.slow
def test_a_fit_finds_the_constants_that_made_its_cells() -> None:
    e = GENERIC.efficiency
    truth = replace(
        e,
        gemm_hbm=0.65,
        gemm_compute=0.55,
        kv_hbm=0.6,
        attention_compute=0.4,
        iteration_s=2.5e-3,
        sequence_s=2e-5,
        link_latency=2.0,
        decode_compute=20.0,
    )
    found = fit(cells(truth), GENERIC, H100)
    assert found.fit.mean_error < 0.01
    for name in ("gemm_hbm", "gemm_compute", "kv_hbm", "attention_compute", "iteration_s", "decode_compute"):
        assert getattr(found.efficiency, name) == pytest.approx(getattr(truth, name), rel=0.15), name


@pytest.mark.slow
def test_what_the_cells_say_nothing_about_stays() -> None:
    alone = [c for c in cells(GENERIC.efficiency) if c.tp == 1]
    found = fit(alone, GENERIC, H100).efficiency
    for name in ("link", "link_latency", "link_tp4", "expert_compute", "dequantise", "gemm_low_precision"):
        assert getattr(found, name) == getattr(GENERIC.efficiency, name)


@pytest.mark.long
@pytest.mark.slow
def test_a_wild_measurement_hardly_moves_a_fit() -> None:
    good = cells(replace(GENERIC.efficiency, gemm_hbm=0.65, iteration_s=2e-3))
    wild = [replace(good[0], seconds=20 * good[0].seconds), *good[1:]]
    kept, moved = fit(good, GENERIC, H100).efficiency, fit(wild, GENERIC, H100).efficiency
    assert moved.gemm_hbm == pytest.approx(kept.gemm_hbm, rel=0.02)


@pytest.mark.long
@pytest.mark.slow
def test_a_model_left_out_is_met_by_what_the_others_taught() -> None:
    truth = replace(GENERIC.efficiency, gemm_hbm=0.65, iteration_s=2.5e-3, kv_hbm=0.7)
    measured = cells(truth)
    errors, found = held_out(measured, [c.architecture.name for c in measured], GENERIC, H100)
    assert len(errors) == len(measured)
    assert np.abs(errors).mean() < 0.05
    assert found.fit.held_out_mean_error == pytest.approx(np.abs(errors).mean())


def test_iterations_measured_together_are_added_up() -> None:
    one = cells(GENERIC.efficiency)[0]
    both = [replace(one, run="batch", repeats=3.0, seconds=5 * one.seconds)] * 2
    assert relative_errors(Measured(both, H100), GENERIC.efficiency) == pytest.approx([6 / 5 - 1])


def test_a_fit_to_nothing_is_refused() -> None:
    with pytest.raises(BadCalibration, match="measure some iterations"):
        fit([], GENERIC, H100)
    with pytest.raises(BadCalibration, match="times of 0 or less"):
        fit([replace(cells(GENERIC.efficiency)[0], seconds=0.0)], GENERIC, H100)
