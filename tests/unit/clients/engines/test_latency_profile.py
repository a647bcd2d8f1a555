"""A profile finds out the law that an engine's iterations obey, whatever the engine calls itself."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cascadia.cli.profile.latency_outputs import as_json, tables
from cascadia.cli.profile.latency_setup import LatencyFlags, setup_of
from cascadia.cli.shared.output import Output
from cascadia.clients.engines.facts import engine_facts
from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.domain.errors import BadInput
from cascadia.profile.latency.profile import Profile, profile_latency, timing_of
from cascadia.testing.clock import now_s, run
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.calibration.file import calibration_from
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.unit.clients.fake_engine import FakeEngine

SMALL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def hidden_timing(**constants: float) -> ReplicaTiming:
    """An engine whose constants are far from those assumed for its device."""
    start = find_calibration(gpu("cpu"), "vllm", "bf16")
    truth = replace(start, gpu="cpu", efficiency=replace(start.efficiency, **constants))
    config = EngineConfig(calibration=truth)
    return replica_timing(architecture(SMALL), gpu("cpu"), tp=1, pp=1, config=config)


def seconds(t: ReplicaTiming, tokens: int, sequences: int, context: int, pairs: int) -> float:
    own = t.token_ps[tokens] + t.sequence_ps[sequences] + t.context_ps * context
    return (int(own) + t.pair_ps * pairs) / PS_PER_S


TRUTH = hidden_timing(gemm_compute=0.15, gemm_hbm=0.9, attention_compute=0.02, kv_hbm=0.05, iteration_s=8e-3)


def truth(*counts: int) -> float:
    return seconds(TRUTH, *counts)


def profiled(engine: FakeEngine, max_seconds: float = 120.0, **flags: Any) -> Profile:
    asked = LatencyFlags(
        "http://fake",
        "m",
        SMALL,
        gpu="cpu",
        tp=1,
        pp=1,
        quantization=None,
        max_num_seqs=None,
        max_num_batched_tokens=None,
    )

    async def main() -> Profile:
        async with OpenAIEngine("http://fake", "m", transport=engine, clock=now_s, **flags) as client:
            facts = await engine_facts(client)
            setup = setup_of(replace(asked, max_num_batched_tokens=engine.max_num_batched_tokens), facts)
            return await profile_latency(
                client,
                facts,
                setup,
                find_calibration(setup.gpu, "vllm", "bf16"),
                max_seconds=max_seconds,
                draw=np.random.default_rng(1),
                progress=lambda share, text: None,
            )

    return run(main())


@pytest.fixture(scope="module")
def found() -> Profile:
    return profiled(FakeEngine(truth, request_s=0.03))


@pytest.mark.parametrize(
    "counts",
    [(1, 1, 500, 0), (6, 6, 3000, 0), (8, 8, 6000, 0), (300, 1, 0, 45_150), (107, 8, 700, 5_050)],
    ids=["lone decoding", "six", "eight with long contexts", "a prompt", "decoding beside a prompt"],
)
def test_iterations_that_were_not_measured_take_as_long_as_predicted(
    found: Profile, counts: tuple[int, int, int, int]
) -> None:
    predicted = seconds(timing_of(found.setup, found.fitted.calibration, None), *counts)
    assert predicted == pytest.approx(truth(*counts), rel=0.06)


def test_what_a_request_costs_outside_of_iterations_is_told_apart(found: Profile) -> None:
    assert found.fitted.request_s == pytest.approx(0.03, rel=0.1)


def test_points_left_out_of_the_fit_are_met_nearly(found: Profile) -> None:
    fit = found.fitted.calibration.fit
    assert fit.mean_error < 0.03
    assert fit.held_out_mean_error is not None
    assert fit.held_out_mean_error < 0.08
    assert len(found.fitted.left_out) == fit.points


def test_mixed_requests_that_were_not_fitted_are_simulated_right(found: Profile) -> None:
    assert found.mixed is not None
    assert found.mixed.requests >= 8
    for name, measured in found.mixed.measured._asdict().items():
        assert getattr(found.mixed.predicted, name) == pytest.approx(measured, rel=0.1), name


def test_it_takes_about_the_time_allowed(found: Profile) -> None:
    assert 60 < found.took_s < 150


def test_the_engines_limit_shows_itself(found: Profile) -> None:
    wider = [why for point, why in found.left_out.items() if point.sequences > 8]
    assert set(wider) == {"the engine works on 8 at once"}
    assert found.setup.config.max_num_seqs == 8


def test_people_see_each_point_that_was_left_out_and_what_was_not_measured(
    found: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in tables(found):
        Output().show(table)
    shown = capsys.readouterr().out
    assert shown.count("first token") + shown.count("an iteration of decoding") == len(found.fitted.left_out)
    assert "mixed requests, none of them fitted" in shown
    assert "the engine works on 8 at once" in shown


def test_programs_get_the_calibration_and_all_that_speaks_for_it(
    found: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(json=True).document(as_json(found, None))
    document = json.loads(capsys.readouterr().out)
    assert calibration_from(document["calibration"], "own") == found.fitted.calibration
    assert document["request_s"] == found.fitted.request_s
    assert {row["error"] for row in document["held_out"]} == {one.error for one in found.fitted.left_out}
    assert document["mixed"]["predicted"]["e2e_p95_s"] > 0


@pytest.mark.long
def test_an_engine_that_knows_no_ignore_eos_or_only_chat_is_measured_too() -> None:
    for engine in (FakeEngine(truth, strict=True), FakeEngine(truth, strict=True, chat_only=True)):
        assert profiled(engine, 40.0).fitted.calibration.fit.mean_error < 0.1


@pytest.mark.parametrize(
    ("engine", "flags", "where", "told"),
    [
        (FakeEngine(truth, served=("a", "b")), {}, "--model", "serves no 'm'; it serves: a, b"),
        (FakeEngine(truth, key="k"), {}, "--api-key-env", "answers 401: Unauthorized; put the engine's key"),
        (FakeEngine(truth, key="k"), {"api_key": "wrong"}, "--api-key-env", "answers 401"),
        (
            FakeEngine(truth, streams=False),
            {},
            "--base-url",
            "does not stream: it answers with application/json",
        ),
        (FakeEngine(truth, counts=False), {}, "--base-url", "does not report token counts"),
    ],
)
def test_an_engine_that_cannot_be_measured_is_refused_in_one_line(
    engine: FakeEngine, flags: dict[str, Any], where: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told) as caught:
        profiled(engine, **flags)
    assert caught.value.where == where


def test_an_engine_behind_a_key_is_measured_with_it() -> None:
    assert profiled(FakeEngine(truth, key="k"), 20.0, api_key="k").fitted.calibration.fit.points > 3


@pytest.mark.parametrize(
    ("owner", "engine"), [("tensorrt_llm", "trtllm"), ("llamacpp", "llama.cpp"), ("me", "openai")]
)
def test_an_engine_without_prometheus_text_is_known_by_who_owns_its_models(owner: str, engine: str) -> None:
    fake = FakeEngine(TRUTH, card={"owned_by": owner}, metrics='[{"iter": 1, "gpuMemUsage": 7}]')

    async def asked() -> str:
        async with OpenAIEngine("http://fake", "m", transport=fake) as client:
            return (await engine_facts(client)).engine

    assert run(asked()) == engine
