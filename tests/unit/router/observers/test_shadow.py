"""A shadow evaluation of what was answered: fresh quality rows, and no client the worse for it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from cascadia.controller.detect.shadow_scores import ShadowFiles
from cascadia.planner.problem.quality_file import read_quality
from cascadia.router.observers.shadow import Budget
from cascadia.router.settings.model import (
    GearSettings,
    JudgeSettings,
    RouterSettings,
    SampleSettings,
    ShadowSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until

GATE = ScriptedGate({"weak": 70.0, "strong": 95.0, "no verdict on this": None})


def shadowed(
    folder: Path, small: FakeEngine, large: FakeEngine, *, room: int = 256, **more: Any
) -> RouterSettings:
    configured = tuple(
        replace(stage, replicas=tuple(replace(each, max_concurrency=room) for each in stage.replicas))
        for stage in stages(small, large, thresholds=(50.0,))
    )
    return RouterSettings(
        configured,
        JudgeSettings("certainty"),
        health=QUICK,
        samples=SampleSettings(folder),
        shadow=ShadowSettings(**{"ratio": 1.0} | more),
    )


def looked(router: Running, outcome: str) -> float:
    return router.router.metrics.shadows.labels(outcome).value


def quality_rows(folder: Path) -> int:
    return sum(parquet.read_table(file).num_rows for file in folder.glob("quality-*.parquet"))


def test_it_gives_a_quality_table_that_the_planner_reads(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large), running(shadowed(tmp_path, small, large), GATE) as router:
            for number in range(1, 4):
                await router.chat(stream=True, stream_options={"include_usage": True})
                await until(lambda wanted=number: looked(router, "done") == wanted)
            # The clients' answers were the small stage's; the shadow evaluation asked both.
            assert (len(small.requests), len(large.requests)) == (6, 3)
            assert large.requests[0]["stream"] is False
            assert router.router.metrics.shadow_tokens.value == 3 * 2 * 13
            assert router.router.metrics.stage_requests.labels("large").value == 0
        (file,) = tmp_path.glob("quality-*.parquet")
        table = read_quality(file, ("small", "large"))
        assert table.score.tolist() == [[70.0] * 3, [95.0] * 3]
        assert table.output_tokens.tolist() == [[3.0] * 3, [3.0] * 3]
        (requests,) = tmp_path.glob("requests-*.parquet")
        assert set(parquet.read_table(requests)["request"].to_pylist()) == set(table.prompt_ids)
        assert "weak" not in json.dumps(parquet.read_table(file).to_pylist(), default=str)

    run(main)


def test_it_says_in_which_gear_the_client_was_answered(tmp_path: Path) -> None:
    gears = (GearSettings(0, 3, ("small", "large")), GearSettings(1, None, ("small",)))

    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with (
            started(small, large),
            running(replace(shadowed(tmp_path, small, large), gears=gears), GATE) as router,
        ):
            assert router.router.gears is not None
            for number in (0, 1):
                router.router.gears.pin(number)
                await router.chat()
                await until(lambda wanted=number + 1: looked(router, "done") == wanted)
        gear, score = ShadowFiles(tmp_path, ("small", "large")).by_gear(0.0)
        assert (gear.tolist(), score.tolist()) == ([0, 1], [82.5, 82.5])

    run(main)


@pytest.mark.parametrize(
    ("more", "outcome"),
    [({"tokens_per_hour": 10}, "budget"), ({"busy": 0.0}, "busy"), ({"room": 1}, "busy")],
)
def test_it_is_left_where_there_is_no_budget_or_no_room(
    tmp_path: Path, more: dict[str, Any], outcome: str
) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large), running(shadowed(tmp_path, small, large, **more), GATE) as router:
            await router.chat()
            await until(lambda: looked(router, outcome) == 1)
            assert (len(small.requests), len(large.requests)) == (1, 0)
        assert quality_rows(tmp_path) == 0

    run(main)


def test_a_client_that_would_have_to_wait_gets_the_place_at_once(tmp_path: Path) -> None:
    """The shadow evaluation holds one of two places; two clients come."""

    async def hang_first(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) in (2, 3):
            await asyncio.Event().wait()
        send(writer, 200, completion(engine.text))

    async def main() -> None:
        small, large = FakeEngine("weak", answer=hang_first), FakeEngine("strong")
        settings = shadowed(tmp_path, small, large, room=2)
        async with started(small, large):
            settings = shadowed(tmp_path, small, large, room=2)
            async with running(settings, GATE) as router:
                await router.chat()
                await until(lambda: len(small.requests) == 2)  # the shadow evaluation hangs there
                slow = asyncio.create_task(router.chat("small"))  # and a client takes the other place
                await until(lambda: len(small.requests) == 3)
                answer = await router.chat("small")
                assert answer.status_code == 200
                assert looked(router, "crowded") == 1
                await until(small.left.is_set)  # its engine was told
                slow.cancel()
                await asyncio.gather(slow, return_exceptions=True)
        assert quality_rows(tmp_path) == 0

    run(main)


def test_the_client_has_its_answer_before_it_begins(tmp_path: Path) -> None:
    async def hang_second(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) > 1:
            await asyncio.Event().wait()
        send(writer, 200, completion(engine.text))

    async def main() -> None:
        small, large = FakeEngine("weak", answer=hang_second), FakeEngine("strong")
        async with started(small, large), running(shadowed(tmp_path, small, large), GATE) as router:
            answer = await router.chat()
            assert answer.json()["choices"][0]["message"]["content"] == "weak"
            await until(lambda: len(small.requests) == 2)
            # One at a time: others drawn meanwhile are left.
            small.answer = None
            await router.chat()
            assert looked(router, "busy") == 1
            # And a router that stops does not wait for it.

    run(main)


def test_a_failure_anywhere_gives_no_row_at_all(tmp_path: Path) -> None:
    async def refuse(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 400, b'{"error": {"message": "too long"}}')

    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong", answer=refuse)
        async with started(small, large), running(shadowed(tmp_path, small, large), GATE) as router:
            await router.chat()
            await until(lambda: looked(router, "unfit") == 1)
            large.answer, large.text = None, "no verdict on this"
            await router.chat()
            await until(lambda: looked(router, "failed") == 1)
        assert quality_rows(tmp_path) == 0

    run(main)


def test_it_is_off_unless_asked_for_and_leaves_what_goes_straight_alone(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        async with started(small, large):
            async with running(shadowed(tmp_path, small, large, ratio=0.0), GATE) as router:
                await router.chat()
                assert router.router.observers.shadow is None
            async with running(shadowed(tmp_path, small, large), GATE) as router:
                await router.chat("large")
                assert router.router.observers.shadow is not None
                assert router.router.observers.shadow._looking == set()
        assert ShadowSettings().ratio == 0.0
        assert (len(small.requests), len(large.requests)) == (1, 1)

    run(main)


def test_whoever_plans_gets_more_looks_for_a_while_on_tokens_of_hours_to_come(tmp_path: Path) -> None:
    async def hang_seconds(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) in (2, 4):
            await release.wait()
        send(writer, 200, completion(engine.text))

    release = asyncio.Event()
    ShadowFiles(tmp_path, ("small", "large")).ask()

    async def main() -> None:
        small, large = FakeEngine("weak", answer=hang_seconds), FakeEngine("strong")
        few: dict[str, Any] = {"ratio": 1e-12, "tokens_per_hour": 500, "burst_ratio": 1.0, "burst_at_once": 2}
        async with started(small, large):
            async with running(shadowed(tmp_path, small, large, **few, burst_hours=0.0), GATE) as router:
                await router.chat()
                assert looked(router, "done") == looked(router, "budget") == 0
            small.requests.clear()
            async with running(shadowed(tmp_path, small, large, **few, burst_hours=24.0), GATE) as router:
                shadow = router.router.observers.shadow
                assert shadow is not None
                await until(shadow._bursts)
                await router.chat()
                await until(lambda: len(small.requests) == 2)
                await router.chat()
                await until(lambda: len(small.requests) == 4)
                await router.chat()
                assert looked(router, "busy") == 1
                release.set()
                await until(lambda: looked(router, "done") == 2)
        assert quality_rows(tmp_path) == 4

    run(main)


def test_a_burst_spends_what_comes_later_and_no_more() -> None:
    budget = Budget(3600)
    budget.spend(3600)
    assert budget.has(7200, 0.0, ahead_hours=2.0)
    assert not budget.has(7201, 0.0, ahead_hours=2.0)
    budget.spend(7200)
    assert not budget.has(1, 7200.0)
    assert budget.has(1, 7201.0)


def test_the_budget_comes_back_over_an_hour_and_is_not_saved_for_longer() -> None:
    budget = Budget(3600)
    assert budget.has(3600, 0.0)
    budget.spend(3600)
    assert not budget.has(1, 0.5)
    assert budget.has(59, 60.0)
    assert not budget.has(61, 60.0)
    assert not budget.has(3601, 100_000.0)
