"""How far off a calibration may be where it stands in for another, and where its measurements end."""

from dataclasses import replace

import pytest

from cascadia_sim.calibration.calibration import Validity
from cascadia_sim.calibration.catalogue import closest_calibration, known_calibrations
from cascadia_sim.calibration.choice import SERVING_ENGINES
from cascadia_sim.evidence.range import Use, beyond
from cascadia_sim.evidence.standing import STAND_INS, basis_of, own_errors, standing, standing_of
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.iteration.build import calibration_of
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

MODEL = architecture("meta-llama/Llama-3.1-8B-Instruct")


@pytest.mark.parametrize("card", known_gpus())
@pytest.mark.parametrize("engine", SERVING_ENGINES)
@pytest.mark.parametrize("precision", ["bf16", "fp8", "awq-int4", "mxfp4"])
def test_a_standing_is_that_of_the_closest_entry_and_never_better_than_it(
    card: str, engine: str, precision: str
) -> None:
    found, closest = standing(gpu(card), engine, precision), closest_calibration(gpu(card), engine, precision)
    assert (found.calibration, found.match) == closest
    entry = closest.calibration
    own = own_errors(entry)
    assert found.error_tpot >= own.tpot
    exact = (entry.gpu, entry.engine, entry.precision) == (card, engine, precision)
    if found.held_out:
        assert exact
        assert found.basis == "served"
        assert (found.error_tpot, found.error_ttft) == own
    elif not exact and entry.fit.points:
        assert found.error_tpot >= min(
            STAND_INS[name].tpot for name in STAND_INS if name.startswith("another")
        )


def test_what_a_user_measured_stands_by_its_own_error() -> None:
    h100 = gpu("h100-sxm")
    entry = replace(known_calibrations()[0], gpu="h100-sxm", precision="bf16")
    config = EngineConfig(calibration=entry)
    found = standing_of(MODEL, h100, config)
    assert found.calibration is calibration_of(MODEL, h100, config)
    assert (found.basis, found.error_tpot, found.error_ttft) == (
        "own",
        entry.fit.held_out_mean_error,
        entry.fit.held_out_mean_error,
    )
    elsewhere = standing_of(MODEL, gpu("a100-sxm"), config)
    assert elsewhere.basis != "own"


def test_what_nothing_was_fitted_to_is_told_apart_from_what_something_was() -> None:
    assert standing(gpu("mi300x"), "vllm", "bf16").basis == "unmeasured"
    for entry in known_calibrations():
        if entry.gpu in known_gpus() and entry.engine in SERVING_ENGINES:
            assert basis_of(entry, gpu(entry.gpu)) == entry.evidence


VALID = Validity((1, 4096), (2, 8), (64, 9216), batch=(1, 128), parameters=(1_000_000_000, 70_000_000_000))
INSIDE = Use(tp=8, parameters=70_000_000_000, tokens=4096, batch=128, context=9216)


def test_nothing_is_beyond_at_the_borders() -> None:
    assert beyond(INSIDE, VALID) == ()
    assert beyond(replace(INSIDE, tp=2, parameters=1_000_000_000, tokens=1, batch=1, context=1), VALID) == ()


@pytest.mark.parametrize(
    ("past", "told"),
    [
        ({"tp": 9}, "TP 9, measured: 2 to 8"),
        ({"tp": 1}, "TP 1, measured: 2 to 8"),
        ({"parameters": 494_000_000}, "a model of 0.494B parameters, measured: 1B to 70B"),
        ({"parameters": 71_000_000_000}, "a model of 71B parameters, measured: 1B to 70B"),
        ({"tokens": 4097}, "iterations of 4,097 tokens, measured: 1 to 4,096"),
        ({"batch": 129}, "129 sequences at once, measured: 1 to 128"),
        ({"context": 9217}, "contexts of 9,217 tokens, measured: 64 to 9,216"),
    ],
)
def test_one_past_a_border_is_told(past: dict[str, int], told: str) -> None:
    assert beyond(replace(INSIDE, **past), VALID) == (told,)


def test_a_range_that_was_not_kept_is_not_left() -> None:
    bare = replace(VALID, batch=None, parameters=None, context=(0, 0))
    assert beyond(Use(8, 10**12, 4096, 10_000, 10**6), bare) == ()
    assert beyond(Use(64, 10**12, 10**6, 10_000, 10**6), Validity((0, 0), (0, 0), (0, 0))) == ()


def test_what_was_served_says_which_batches_and_sizes_of_model_it_was() -> None:
    for entry in known_calibrations():
        whole = entry.served and "closed loops" in entry.source
        assert (entry.valid.batch is not None and entry.valid.parameters is not None) or not whole, entry.name


def test_a_range_of_nothing_is_left_by_nobody_and_one_of_a_single_figure_is_told_as_that() -> None:
    valid = Validity(tokens=(1, 4096), tp=(2, 2), context=(0, 2048))
    inside = Use(tp=2, parameters=7, tokens=4096, batch=9999, context=2048)
    assert beyond(inside, valid) == ()
    assert beyond(replace(inside, tp=4), valid) == ("TP 4, measured: 2",)
    assert beyond(replace(inside, tokens=4097), valid) == (
        "iterations of 4,097 tokens, measured: 1 to 4,096",
    )
    assert beyond(replace(inside, context=2049), valid) == ("contexts of 2,049 tokens, measured: 0 to 2,048",)
    assert beyond(replace(inside, context=9**9), replace(valid, context=(0, 0))) == ()
