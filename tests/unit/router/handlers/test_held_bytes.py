"""What is held back of answers is counted, costs about its own bytes, and is bounded for all requests together."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.clients.engines.held_bytes import HeldBytes, Holding
from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, started
from cascadia.testing.routers import ScriptedGate, run, running, stages, until

PARTS = 1500


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60) | st.none())))
def test_no_more_is_taken_than_there_is_and_all_of_it_is_given_back(
    steps: list[tuple[int, int | None]],
) -> None:
    held = HeldBytes(100)
    requests = [Holding(held) for _ in range(3)]
    mine = [0, 0, 0]
    for which, count in steps:
        if count is None:
            requests[which].release()
            mine[which] = 0
        elif requests[which].take(count):
            mine[which] += count
        else:
            assert sum(mine) + count > 100
        assert held.used == sum(mine) <= 100
    for each in requests:
        each.release()
        each.release()
    assert held.used == 0


async def long(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    for _ in range(PARTS):
        event(writer, delta("word "))
        await writer.drain()
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


@pytest.mark.parametrize("stream", [True, False])
def test_answers_that_fill_the_room_are_refused_and_the_room_is_there_again_afterwards(stream: bool) -> None:
    async def main() -> None:
        small, large = FakeEngine("x" * 5_000), FakeEngine("y" * 5_000)
        gate = ScriptedGate({"x" * 5_000: 0.0})
        async with started(small, large):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, gate, max_held_bytes=2_000) as up:
                refused = [await up.chat(stream=stream) for _ in range(3)]
                assert {answer.status_code for answer in refused} == {503}
                assert {answer.json()["error"]["code"] for answer in refused} == {"router_exhausted"}
                assert large.requests == []
                small.text = "ok"
                gate.scores["ok"] = 100.0
                assert (await up.chat()).status_code == 200
                await until(lambda: up.router.held.used == 0)

    run(main)


def test_a_held_stream_costs_little_more_than_its_bytes() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=long)
        gate = ScriptedGate({}, slow=True)
        async with started(engine), running(stages(engine, engine, thresholds=(50,)), gate) as up:
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            asked = asyncio.create_task(up.chat(stream=True))
            await until(lambda: len(gate.seen) == 1)
            gc.collect()
            grew = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            size = up.router.held.used
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert size > PARTS * 80
        assert grew < 2 * size + 200_000

    run(main)
