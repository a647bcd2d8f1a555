"""Of a stream only whole events are passed on."""

import asyncio
import json
import tracemalloc
from itertools import pairwise
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.router.openai.whole_events import EVENT_BYTES_MAX, WholeEvents
from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, started
from cascadia.testing.routers import run, running, stages

PARTS = st.lists(
    st.sampled_from([b"data: a", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b": x", b"b"]), max_size=12
)


@given(PARTS, st.lists(st.integers(0, 60), max_size=8))
def test_nothing_is_lost_and_what_is_passed_on_ends_with_an_event(
    pieces: list[bytes], cuts: list[int]
) -> None:
    content = b"".join(pieces)
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    events, passed = WholeEvents(), b""
    for a, b in pairwise(edges):
        passed += events.part(content[a:b])
        assert passed == b"" or passed.endswith((b"\n\n", b"\n\r\n"))
    assert passed + events.held == content
    assert b"\n\n" not in events.held
    assert b"\n\r\n" not in events.held


def test_an_event_without_end_is_given_up() -> None:
    events = WholeEvents()
    events.part(b"x" * EVENT_BYTES_MAX)
    with pytest.raises(OverflowError):
        events.part(b"x")


@pytest.mark.parametrize("half", [b'data: {"id": "c-1", "cho', b"data: ", b'data: {"id":"c"}\n', b"da"])
@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_a_stream_cut_within_an_event_ends_with_an_error_that_the_official_client_raises(
    half: bytes, model: str
) -> None:
    async def cut_within(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        writer.write(f"{len(half):x}\r\n".encode() + half + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async def main() -> None:
        engine = FakeEngine(answer=cut_within)
        async with started(engine), running(stages(engine)) as up:
            client = openai.AsyncOpenAI(
                base_url=f"http://127.0.0.1:{up.port}/v1", api_key="none", max_retries=0
            )
            chunks = await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "q"}], stream=True
            )
            assert (await anext(chunks)).choices[0].delta.content == "a"
            with pytest.raises(openai.APIError):
                await anext(chunks)
            await client.close()
            answer = await up.chat(model, stream=True)
        events = [line for line in answer.text.split("\n\n") if line]
        assert [json.loads(line.removeprefix("data: ")) for line in events][-1]["error"][
            "code"
        ] == "stage_failed"
        assert len(events) == 2

    run(main)


def test_an_event_that_comes_byte_by_byte_is_not_copied_for_each() -> None:
    events = WholeEvents()
    events.part(b"x" * (EVENT_BYTES_MAX // 2))
    tracemalloc.start()
    try:
        for _ in range(100):
            events.part(b"x")
        assert tracemalloc.get_traced_memory()[1] < EVENT_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert len(events.held) == EVENT_BYTES_MAX // 2 + 100
