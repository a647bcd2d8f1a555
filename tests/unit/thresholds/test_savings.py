"""What a cascade saved against its largest stage alone: by hand, over draws, and from a router's own log."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cascadia.cli.main import main
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import write_plan
from cascadia.router.settings.model import RouterSettings, SampleSettings, ShadowSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until
from cascadia.thresholds.savings import Observed, Pair, observed, savings
from tests.unit.domain.test_prices import priced

PRICES = {"small": (1.0, 2.0), "large": (10.0, 40.0)}


def test_pairs_by_hand() -> None:
    pairs = tuple(Pair(1.0, 3.0 + at % 2, 60.0, 61.0) for at in range(100))
    found = savings(Observed(pairs, 1000, "large"))
    assert found.saved_usd.mean == pytest.approx(2500.0)
    assert found.saved_usd.margin == pytest.approx(1000 * 1.96 * np.sqrt(0.25 * 100 / 99) / 10)
    assert tuple(found.gained) == (-1.0, 0.0)
    assert found.said == (
        "saved $2,500.00 ± 98.49 against all to large; quality -1.0 ± 0.0 (100 of 1,000 requests evaluated)"
    )


def test_a_cascade_that_costs_more_has_lost() -> None:
    pairs = tuple(Pair(3.0, 1.0, 60.0, 60.0) for _ in range(40))
    assert savings(Observed(pairs, 40, "large")).said.startswith("lost $80.00 ± 0.00 against all to large")


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 400 weeks drawn anew, 95 % of the intervals hold what was saved; 92 to 98 % is chance."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        large = rng.gamma(4.0, 0.25, 200)
        usd = np.where(rng.random(200) < 0.4, large + 0.1, 0.1)
        pairs = tuple(Pair(*row) for row in zip(usd, large, large, large, strict=True))
        found = savings(Observed(pairs, 10_000, "large")).saved_usd
        held += abs(found.mean - 10_000 * (0.6 - 0.1)) <= found.margin
    assert 0.92 <= held / 400 <= 0.98


def test_too_few_evaluations_say_how_many_there_are() -> None:
    with pytest.raises(BadInput, match="29 answered requests of the time were evaluated"):
        savings(Observed((Pair(1.0, 1.0, 1.0, 1.0),) * 29, 500, "large"))


def test_a_routers_own_log_is_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Answers of 10 tokens read and 3 written. Half of the questions are escalated and so pay for both stages."""

    async def serve() -> None:
        small, large = FakeEngine("poor"), FakeEngine("good")
        scores: dict[str, float | None] = {"poor": 10.0, "good": 90.0}
        gate = ScriptedGate(scores)
        async with started(small, large):
            settings = RouterSettings(
                stages(small, large, thresholds=(50.0,)),
                None,
                health=QUICK,
                samples=SampleSettings(tmp_path / "samples"),
                shadow=ShadowSettings(ratio=1.0),
            )
            async with running(settings, gate) as up:
                for at in range(40):
                    # What the gate thinks of the small one's answer when it is asked for, and in the evaluation.
                    scores["poor"] = 60.0 if at % 2 else 10.0
                    assert (await up.chat()).status_code == 200
                    await until(lambda n=at: up.router.metrics.shadows.labels("done").value > n)  # type: ignore[misc]
                await up.chat(model="large")

    run(serve)
    now_s = time.time()
    found = observed(tmp_path / "samples", PRICES, now_s - 600, now_s + 1)
    assert (len(found.pairs), found.requests, found.large) == (40, 40, "large")
    poor, good = (10 * 1.0 + 3 * 2.0) / 1e6, (10 * 10.0 + 3 * 40.0) / 1e6
    assert sorted({pair.usd for pair in found.pairs}) == pytest.approx([poor, poor + good])
    made = savings(found)
    assert made.saved_usd.mean == pytest.approx(40 * (good / 2 - poor))
    assert made.gained.mean == pytest.approx((60.0 - 90.0) / 2)
    assert observed(tmp_path / "samples", PRICES, now_s - 900, now_s - 600).requests == 0
    with pytest.raises(BadInput, match="no price of large"):
        observed(tmp_path / "samples", {"small": (1.0, 1.0)}, now_s - 600, now_s + 1)
    write_plan(priced(), tmp_path / "plan.json")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "history",
                "--savings",
                str(tmp_path / "plan.json"),
                "--samples",
                str(tmp_path / "samples"),
                "--json",
            ]
        )
    assert ended.value.code == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["savings"]["evaluated"] == 40


def test_a_log_of_another_version_is_read_as_far_as_it_tells_or_named(tmp_path: Path) -> None:
    step = {"stage": "small", "input_tokens": 5, "output_tokens": 6}
    came = {
        "request": "p",
        "arrival_s": 1.0,
        "model": "cascadia",
        "stage": "small",
        "status": 200,
        "steps": [step],
    }
    look = {"prompt_id": "p", "score": 50.0, "at_s": 2.0, "input_tokens": 5, "output_tokens": 6}
    looks = [look | {"stage": name} for name in ("small", "large")]

    def pairs(requests: list[dict[str, Any]], evaluated: list[dict[str, Any]]) -> int:
        parquet.write_table(pa.Table.from_pylist(requests), tmp_path / "requests-a.parquet")
        parquet.write_table(pa.Table.from_pylist(evaluated), tmp_path / "quality-a.parquet")
        return len(observed(tmp_path, {"small": (1.0, 2.0), "large": (3.0, 4.0)}, 0.0, 9.0).pairs)

    assert pairs([came], looks) == 1
    assert pairs([came | {"arrival_s": "1.0", "status": "200"}], looks) == 1
    torn = [came | {"request": "q", "steps": None}, came | {"request": "r", "arrival_s": None}]
    assert pairs([came, *torn], [*looks, looks[0] | {"at_s": None}]) == 1
    for lacking in ("stage", "input_tokens"):
        told = {name: value for name, value in step.items() if name != lacking}
        with pytest.raises(BadInput, match="requests-a"):
            pairs([came | {"steps": [told]}], looks)
