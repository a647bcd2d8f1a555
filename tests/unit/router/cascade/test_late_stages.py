"""Requests with deadlines, beside a stage that is slow for a while: they pass it over, and come back."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages

GATE = ScriptedGate({"a": 90.0, "b": 90.0})
DEADLINE_MS = 250


class Slowing:
    """An engine that answers after `after_s`."""

    def __init__(self, text: str) -> None:
        self.engine = FakeEngine(text, answer=self._answer)
        self.after_s = 0.0

    async def _answer(self, engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            await asyncio.sleep(self.after_s)
            send(writer, 200, completion(engine.text))
            return
        begin_stream(writer)
        event(writer, delta(engine.text))
        await asyncio.sleep(self.after_s)
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")


async def answered_by(up: Running, requests: int) -> Counter[str]:
    """Stages that answered so many requests, one after the other; `late` for who got none in time."""
    found: Counter[str] = Counter()
    for _ in range(requests):
        answer = await up.chat(deadline_ms=DEADLINE_MS)
        found[answer.headers.get("x-cascadia-stage", "late")] += 1
    return found


async def all_answered_by_the_small_one(up: Running) -> None:
    async with asyncio.timeout(60):
        while set(await answered_by(up, 20)) != {"small"}:
            pass


@pytest.mark.parametrize("then", ["queue", "refuse"])
def test_who_has_a_deadline_goes_round_a_stage_that_hangs_and_comes_back_when_it_is_well(then: Any) -> None:
    async def main() -> None:
        small, large = Slowing("a"), FakeEngine("b")
        async with started(small.engine, large):
            told = RouterSettings(
                stages(small.engine, large, thresholds=(70,)),
                JudgeSettings("certainty"),
                health=QUICK,
                when_overloaded=then,
            )
            async with running(told, GATE) as up:
                assert set(await answered_by(up, 10)) == {"small"}
                small.after_s = 30.0
                found = await answered_by(up, 40)
                assert found["late"] <= 6
                assert found["large"] == 40 - found["late"]
                small.after_s = 0.0
                await all_answered_by_the_small_one(up)

    run(main)


def test_who_has_spent_the_time_that_a_larger_stage_takes_has_the_answer_that_is_there() -> None:
    """Alone either stage would be in time, and both together are not."""

    async def main() -> None:
        small, large = Slowing("a"), Slowing("b")
        small.after_s = large.after_s = 0.3
        async with started(small.engine, large.engine):
            told = stages(small.engine, large.engine, thresholds=(70,))
            async with running(told, ScriptedGate({"a": 10.0})) as up:
                assert (await up.chat()).headers["x-cascadia-stage"] == "large"
                found = await up.chat(deadline_ms=550)
        assert (found.status_code, found.headers["x-cascadia-stage"]) == (200, "small")
        assert found.headers["x-cascadia-stopped"] == "deadline"
        assert len(large.engine.requests) == 1

    run(main)


def test_a_stage_alone_that_was_slow_for_a_moment_is_not_refused_for_ever() -> None:
    async def main() -> None:
        only = Slowing("a")
        async with started(only.engine):
            told = RouterSettings(stages(only.engine), None, health=QUICK, when_overloaded="refuse")
            async with running(told, GATE) as up:
                only.after_s = 2 * DEADLINE_MS / 1000
                assert (await up.chat()).status_code == 200
                only.after_s = 0.0
                await all_answered_by_the_small_one(up)

    run(main)


def test_streams_that_their_own_deadlines_cut_close_no_replica_to_others() -> None:
    async def main() -> None:
        only = Slowing("a")
        only.after_s = 2 * DEADLINE_MS / 1000
        async with started(only.engine), running(stages(only.engine)) as up:
            for _ in range(8):
                cut = await up.chat("small", stream=True, deadline_ms=DEADLINE_MS)
                assert "stage_timeout" in cut.text
            replica = up.router.stages[0].replicas[0]
            assert (replica.breaker.failures, replica.running) == (0, 0)
            whole = await up.chat("small", stream=True)
            assert whole.text.endswith("data: [DONE]\n\n")

    run(main)


def test_a_slow_stage_is_known_by_its_streams_too() -> None:
    async def main() -> None:
        small, large = FakeEngine("a"), Slowing("b")
        large.after_s = 2 * DEADLINE_MS / 1000
        gate = ScriptedGate({"a": 10.0})
        async with (
            started(small, large.engine),
            running(stages(small, large.engine, thresholds=(70,)), gate) as up,
        ):
            assert (await up.chat(stream=True)).headers["x-cascadia-stage"] == "large"
            in_time = await up.chat(stream=True, deadline_ms=DEADLINE_MS)
            assert in_time.headers["x-cascadia-stage"] == "small"
            assert in_time.headers["x-cascadia-stopped"] == "deadline"

    run(main)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_a_stage_that_is_not_asked_for_lack_of_time_has_read_nothing(model: str, *, stream: bool) -> None:
    async def hangs(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        small, large = FakeEngine(answer=hangs), FakeEngine("strong")
        gate = ScriptedGate({})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            late = await up.chat(model, stream=stream, deadline_ms=50)
            never = await up.chat(model, stream=stream, deadline_ms=1e-9)
        assert (late.status_code, never.status_code) == (504, 504)
        first, second = up.lines
        assert first["tokens"].pop("small") > 0
        assert not any(first["tokens"].values())
        assert not any(second["tokens"].values())
        assert (len(small.requests), len(large.requests)) == (1, 0)

    run(main)
