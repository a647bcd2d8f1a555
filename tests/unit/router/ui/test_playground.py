"""The playground's part of the router: each stage's answer to who asks for it, and numbers for what-ifs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.router.access.keys import Key, Keyring, make_key
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import (
    JudgeSettings,
    KeySettings,
    RouterSettings,
    SampleSettings,
    ShadowSettings,
)
from cascadia.router.ui.evaluations import MOST, Evaluations
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until

EXPLAIN = {"x-cascadia-explain": "1"}
GATE = ScriptedGate({"weak answer": 20.0, "strong answer": 95.0})


def settings(small: FakeEngine, large: FakeEngine) -> RouterSettings:
    configured = stages(small, large, thresholds=(50.0,))
    priced = tuple(replace(stage, cost=cost) for stage, cost in zip(configured, (1.0, 10.0), strict=True))
    return RouterSettings(
        priced, JudgeSettings("certainty"), health=QUICK, cost_unit="usd-per-million-tokens"
    )


def test_who_asks_for_it_is_told_each_stages_answer_and_nobody_else() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak answer"), FakeEngine("strong answer")
        async with started(small, large), running(settings(small, large), GATE) as router:
            told = (await router.chat(headers=EXPLAIN)).json()["cascadia"]
            first, last = told["steps"]
            assert (first["stage"], first["outcome"], first["score"], first["threshold"]) == (
                "small",
                "score",
                20.0,
                50.0,
            )
            assert (first["answer"], last["answer"]) == ("weak answer", "strong answer")
            assert first["seconds"] >= first["judge_seconds"] >= 0
            assert first["usd"] + last["usd"] == pytest.approx(told["usd"])
            assert first["output_tokens"] > 0
            # Without the header nothing of it; nor is it kept anywhere.
            plain = (await router.chat()).json()["cascadia"]["steps"]
            assert set(plain[0]) == {"stage", "outcome", "score", "threshold"}
            state = (await router.client.get("/ui/state")).text
            assert "weak answer" not in state + json.dumps(router.lines)

    run(main)


def test_told_to_be_off_it_neither_asks_nor_tells() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak answer"), FakeEngine("strong answer")
        async with (
            started(small, large),
            running(replace(settings(small, large), playground=False), GATE) as router,
        ):
            assert "weak answer" not in (await router.chat(headers=EXPLAIN)).text
            assert (await router.client.get("/ui/state")).json()["playground"] is None

    run(main)


def test_it_needs_the_key_that_any_request_needs(tmp_path: Path) -> None:
    new = make_key()
    keyring = Keyring([Key(new.id, "a", new.digest, scopes=frozenset({"inference", "metrics"}))])

    async def main() -> None:
        small, large = FakeEngine("weak answer"), FakeEngine("strong answer")
        keys, own = KeySettings(tmp_path / "keys.json"), {"authorization": f"Bearer {new.text}"}
        async with (
            started(small, large),
            running(replace(settings(small, large), keys=keys), GATE, keyring=keyring) as router,
        ):
            assert (await router.client.get("/ui/state", headers=own)).json()["playground"] == {"keys": True}
            assert (await router.chat(headers=EXPLAIN)).status_code == 401
            answer = await router.chat(headers=EXPLAIN | own)
            assert answer.status_code == 200

    run(main)


def test_shadow_evaluations_are_told_as_numbers_alone(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak answer"), FakeEngine("strong answer")
        shadow = {"samples": SampleSettings(tmp_path), "shadow": ShadowSettings(ratio=1.0)}
        async with (
            started(small, large),
            running(replace(settings(small, large), **shadow), GATE) as router,  # type: ignore[arg-type]
        ):
            await router.chat(stream=True, stream_options={"include_usage": True})
            await until(lambda: router.router.metrics.shadows.labels("done").value == 1)
            told = (await router.client.get("/ui/evaluations")).json()
        assert told["stages"] == [
            {"name": "small", "threshold": 50.0, "cost": [1.0, 1.0]},
            {"name": "large", "threshold": 0.0, "cost": [10.0, 10.0]},
        ]
        ((small_seen, large_seen),) = told["evaluations"]
        assert (small_seen[0], large_seen[0]) == (20.0, 95.0)
        assert small_seen[1] > 0

    run(main)


def test_the_latest_are_kept_and_those_of_other_stages_left_out() -> None:
    kept = Evaluations()
    for number in range(MOST + 5):
        kept.add(
            [{"stage": "small", "score": float(number % 100), "input_tokens": 3, "output_tokens": number}]
        )
    assert len(kept.of(["small"])) == MOST
    assert kept.of(["small"])[0] == [(5.0, 3, 5)]
    assert kept.of(["small", "large"]) == []


@pytest.mark.parametrize(("written", "meant"), [("off", False), ("false", False), ("true", True)])
def test_the_file_says_whether_it_is_on(tmp_path: Path, written: str, meant: bool) -> None:
    file = tmp_path / "router.yaml"
    file.write_text(
        f"playground: {written}\nstages:\n  - {{name: only, model: m, replicas: [{{url: 'http://127.0.0.1:1'}}]}}\n"
    )
    assert read_settings(file).playground is meant
