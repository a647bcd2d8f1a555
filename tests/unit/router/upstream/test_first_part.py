"""A stream's first part may take as long as any answer's: vLLM and llama.cpp send the head before its turn comes."""

import asyncio
import contextlib
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, started
from cascadia.testing.routers import ScriptedGate, run, running, stages

IDLE_S, TURN_S = 0.1, 0.4


async def queued(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Its turn comes later than `IDLE_S` after its head."""
    begin_stream(writer)
    await writer.drain()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(engine.left.wait(), TURN_S)
        return
    event(writer, delta("late"))
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


async def silent(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    await engine.left.wait()


@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_the_idle_limit_begins_with_the_first_part(model: str) -> None:
    """Asked of a stage, the stream is passed on; asked of the cascade, it is held for its gate."""

    async def main() -> None:
        small, large = FakeEngine(answer=queued), FakeEngine("large")
        async with started(small, large):
            both, gate = stages([small], large, thresholds=(50,)), ScriptedGate({"late": 90.0})
            async with running(both, gate, idle_s=IDLE_S) as up:
                answer = await up.chat(model, stream=True)
        assert answer.headers["x-cascadia-stage"] == "small"
        assert "late" in answer.text
        assert "error" not in answer.text
        assert len(small.requests) == 1

    run(main)


def test_a_stream_of_which_the_head_alone_comes_ends_as_an_answer_that_never_begins() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=silent)
        async with started(engine), running(stages(engine), first_byte_s=0.2, idle_s=IDLE_S) as up:
            answer = await up.chat("small", stream=True)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "stage_timeout")

    run(main)
