"""A slow engine's profile keeps its time, keeps what it could measure, says what is missing, and goes on later."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cascadia.cli.profile.latency_setup import LatencyFlags, setup_of
from cascadia.clients.engines.facts import engine_facts
from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.domain.errors import BadInput
from cascadia.profile.latency.file import read_measurements, write_profile
from cascadia.profile.latency.measure import Seen
from cascadia.profile.latency.points import Point, ladder, needed
from cascadia.profile.latency.profile import Profile, profile_latency, timing_of
from cascadia.testing.clock import now_s, run
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.calibration.file import read_calibration
from cascadia_sim.evidence.standing import standing
from cascadia_sim.fit.profile_coverage import PARTS
from cascadia_sim.hardware.catalogue import gpu
from tests.unit.clients.engines.test_latency_profile import SMALL, TRUTH, hidden_timing, seconds
from tests.unit.clients.fake_engine import FakeEngine

ALLOWED_S = 100.0


def slow(times: float) -> FakeEngine:
    return FakeEngine(lambda *counts: times * seconds(TRUTH, *counts), request_s=0.03)


def profiled(
    engine: FakeEngine, kept: Mapping[Point, Sequence[Seen]] | None = None, allowed_s: float = ALLOWED_S
) -> Profile:
    asked = LatencyFlags(
        "http://fake",
        "m",
        SMALL,
        gpu="cpu",
        tp=1,
        pp=1,
        quantization=None,
        max_num_seqs=8,
        max_num_batched_tokens=engine.max_num_batched_tokens,
    )

    async def main() -> Profile:
        async with OpenAIEngine("http://fake", "m", transport=engine, clock=now_s) as client:
            facts = await engine_facts(client)
            setup = setup_of(asked, facts)
            return await profile_latency(
                client,
                facts,
                setup,
                find_calibration(setup.gpu, "vllm", "bf16"),
                max_seconds=allowed_s,
                draw=np.random.default_rng(1),
                progress=lambda share, text: None,
                kept=kept or {},
            )

    return run(main())


SLOWER = (1.0, 20.0, 150.0)


@cache
def profile_of(times: float, allowed_s: float = ALLOWED_S) -> Profile:
    """Of an engine so many times slower; made once in a process."""
    return profiled(slow(times), allowed_s=allowed_s)


@pytest.fixture(scope="module", params=SLOWER)
def found(request: pytest.FixtureRequest) -> Profile:
    return profile_of(request.param)


@pytest.mark.long(in_ci=1)
def test_the_limit_is_kept_however_slow_the_engine_is(found: Profile) -> None:
    assert found.took_s <= ALLOWED_S + 2.0


def test_what_is_missing_keeps_the_assumed_constants_and_their_error(found: Profile) -> None:
    start = find_calibration(gpu("cpu"), "vllm", "bf16")
    told = {m.partition(" (")[0] for m in found.missing}
    assert told <= {part.name for part in PARTS}
    c = found.fitted.calibration
    for part in PARTS:
        if part.name in told:
            for name in part.constants:
                assert getattr(c.efficiency, name) == getattr(start.efficiency, name)
    if told:
        assert c.fit.held_out_mean_error is not None
        assert c.fit.held_out_mean_error >= standing(gpu("cpu"), "vllm", "bf16").error_tpot
        assert all(name in c.source for name in told)
    else:
        assert "not measured" not in c.source


def test_a_slow_engine_is_told_of_in_the_order_of_what_a_fit_needs() -> None:
    lacking = [len(profile_of(times).missing) for times in SLOWER]
    assert lacking == sorted(lacking)
    assert lacking[0] == 0
    assert lacking[-1] > 0
    assert all("decoding" not in m.split(" (")[0] for m in profile_of(SLOWER[-1]).missing)


def test_decoding_is_predicted_from_a_partial_profile() -> None:
    found = profile_of(150.0)
    assert found.missing
    predicted = seconds(timing_of(found.setup, found.fitted.calibration, None), 1, 1, 80, 0)
    assumed = seconds(hidden_timing(), 1, 1, 80, 0)
    truth = 150.0 * seconds(TRUTH, 1, 1, 80, 0)
    assert predicted == pytest.approx(truth, rel=0.2)
    assert abs(assumed / truth - 1) > 0.9


@pytest.mark.long
def test_it_goes_on_from_the_same_file_until_nothing_is_missing(tmp_path: Path) -> None:
    path, lacking, kept = tmp_path / "own.json", [], {}
    for _ in range(12):
        found = profiled(slow(20.0), kept)
        write_profile(found, path)
        kept = read_measurements(path, found.setup)
        assert kept == found.seen
        assert read_calibration(path) == found.fitted.calibration
        lacking.append(len(found.missing))
        if not found.missing:
            break
    assert lacking[0] > 0
    assert lacking[-1] == 0
    assert lacking == sorted(lacking, reverse=True)
    assert "not measured" not in found.fitted.calibration.source


def test_an_engine_that_breaks_down_leaves_what_was_measured() -> None:
    class Breaks(FakeEngine):
        asked = 0

        async def _complete(self, body):  # type: ignore[no-untyped-def]
            Breaks.asked += 1
            if Breaks.asked > 6:
                import httpx

                return httpx.Response(500, json={"error": {"message": "out of memory"}})
            return await super()._complete(body)

    found = profiled(Breaks(lambda *counts: seconds(TRUTH, *counts)))
    assert found.fitted.calibration.fit.points >= 2
    assert any("failed while it was measured" in note and "500" in note for note in found.notes)
    assert found.missing


def test_an_engine_that_answers_nothing_in_the_time_is_refused_with_a_longer_one() -> None:
    with pytest.raises(
        BadInput, match=r"gave no whole answer of 8 tokens within 5 s; write a longer time, e\.g\. 20"
    ):
        profiled(slow(150.0), allowed_s=5.0)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda d: d["profile"]["of"].update(model="another"), "was measured at model another, this is"),
        (lambda d: d["profile"]["of"].pop("tp"), "was measured at tp None, this is 1"),
        (lambda d: d["profile"]["of"].update(kv="fp8"), "was measured at kv fp8, this is None"),
        (lambda d: d.pop("profile"), "keeps no measurements"),
        (lambda d: d["profile"]["seen"].append([1, 2, 3]), "a measurement that is none"),
        (
            lambda d: d["profile"]["seen"].append([1, 2, 3, 4.0, 5.0, float("nan")]),
            "a measurement that is none",
        ),
    ],
)
def test_measurements_of_something_else_are_not_gone_on_from(tmp_path: Path, edit, told: str) -> None:  # type: ignore[no-untyped-def]
    found = profile_of(1.0, 20.0)
    path = tmp_path / "own.json"
    write_profile(found, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    edit(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BadInput, match=told) as refusal:
        read_measurements(path, found.setup)
    assert refusal.value.where == "--resume"


def test_each_missing_part_has_its_cheapest_point_first() -> None:
    points = ladder(2048, 8, None)
    wanted = needed(points, [], 2048, 8)
    assert [p.kv_tokens for p in wanted] == sorted(p.kv_tokens for p in wanted)
    assert Point(1, 1, 1) in wanted
    for part in PARTS:
        assert any(part.shows(p.expected) for p in wanted), part.name
    assert needed(points, [replace(p.expected, seconds=1.0) for p in points], 2048, 8) == []
