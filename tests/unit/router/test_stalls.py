"""No request, no answer and no framing keeps the event loop for long: the worst that `bench_stalls.py` found at each
place, once more.

A turn took 20 to 200 ms of CPU time in each of these before what is read of them was bounded. Asked for is 5 ms, which
`make bench` holds; here, beside other tests on the same cores, it is a multiple of that.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from cascadia.router.openai.answers import read_events
from cascadia.testing.engines import FakeEngine, completion, delta, send, started
from cascadia.testing.routers import run, running, stages
from tests.benchmarks.bench_stalls import MOST_BYTES, PLACES, Attack, units_of
from tests.benchmarks.stall_rig import Rig, rig

LIMIT_MS = 15.0
EMPTY_LISTS = b"[" + b",".join([b"[]"] * (MOST_BYTES // 3)) + b"]"
LOGPROB = b'{"token":"a","logprob":-0.1}'
WORST = {
    "a model's name in a body": b"\\n",
    "members, straight": b'"n":2',
    "messages": b"0",
    "messages, straight": b"0",
    "messages, agreement": b"{}",
    "content's parts": b"{}",
    "content's parts, certainty": b"[[]]",
    "tools": b"{}",
    "prompt": b"[]",
    "prompt's text": b"</s>",
    "input": b'{"role":"user"}',
    "input's content": b"[]",
    "input of embeddings": b"0",
    "input, one pass": b"0",
    "requests at once": b"a",
    "requests at once, no key": b"a",
    "body in chunks": b"a",
    "query of a GET": b"&a%41",
    "admin: plan's stages": b'{"index":1,"message":{}}',
    "admin: thresholds": b'"a":[]',
    "engine: choices": b'{"index":0,"text":"a"}',
    "engine: choices, straight": b"0",
    "engine: calls": b"{}",
    "engine: logprobs": b'{"logprob":-1}',
    "engine: events, held": b"data:{}\n\n",
    "engine: events, held, certainty": b"\n\n",
    "engine: events, live, noted": b'data:{"usage":{}}\n',
    "engine: events, live, hidden": b'data:{"usage":{}}\n\n',
    "engine: chunks, held": b"a",
    "engine: chunks, live": b"a",
    "engine: classes": b"0",
    "engine: head": b"a",
    "engine: output": b"{}",
    "engine: text": b"\xe2\x80\x8b",
    "engine: trailers": b"a",
    "judge: choices": b"0",
    "judge: logprobs": LOGPROB,
    "judge: alternatives": LOGPROB,
    "judge: text": b"a",
}


@pytest.fixture(scope="module")
def rigs() -> Iterator[dict[str, Rig]]:
    kinds = {place.judge for place in PLACES if place.name in WORST}
    with ExitStack() as stack:
        found = {kind: stack.enter_context(rig(kind)) for kind in kinds}
        for place in PLACES:
            if place.name in WORST:
                # What is imported and compiled at first use is no attack's doing.
                Attack(place, b"", b"", 0).turn_ms(found)
        yield found


def limit_ms() -> float:
    """`LIMIT_MS`, or where the machine is slow just now a quarter of what reading such a body once takes."""
    began_s = time.thread_time()
    msgspec.json.decode(EMPTY_LISTS)
    return max(LIMIT_MS, 1e3 * (time.thread_time() - began_s) / 4)


@pytest.mark.long(in_ci=7)
@pytest.mark.parametrize("name", WORST)
def test_nothing_keeps_the_loop_for_long(rigs: dict[str, Rig], name: str) -> None:
    place = next(place for place in PLACES if place.name == name)
    attack = Attack(place, WORST[name], units_of(place)[1], MOST_BYTES)
    before_ms, turn_ms, after_ms = limit_ms(), attack.turn_ms(rigs), limit_ms()
    assert turn_ms < max(before_ms, after_ms)


def test_what_follows_an_answer_is_no_answer_to_the_next_request() -> None:
    async def twice(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = len(engine.requests)
        send(writer, 200, completion(f"{number}" * 40_000))
        send(writer, 200, completion("of another" * 4_000))

    async def main() -> None:
        engine = FakeEngine(answer=twice)
        async with started(engine), running(stages(engine)) as router:
            for number in (1, 2, 3):
                answer = await router.chat("small")
                assert answer.json()["choices"][0]["message"]["content"] == f"{number}" * 40_000

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_in_chunks_of_a_byte_is_the_same_answer(stream: bool) -> None:
    said = "0123456789" * 3_000

    async def dripping(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        content = completion(said)
        kind = b"application/json"
        if stream:
            content = b"data: " + json.dumps(delta(said)).encode() + b"\n\ndata: [DONE]\n\n"
            kind = b"text/event-stream"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
        writer.write(head + chunks + b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=dripping)
        async with started(engine), running(stages(engine)) as router:
            for _ in range(4):
                answer = await router.chat("small", stream=stream)
                assert answer.text.count(said) == 1
            assert engine.connections <= 2  # its health may be asked on another

    run(main)


def test_many_requests_at_once_are_all_answered_in_their_order() -> None:
    count = 3_000

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as router:
            reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
            one = "POST /v1/completions HTTP/1.1\r\nhost: a\r\nx-request-id: {}\r\ncontent-length: 2\r\n\r\n{{}}"
            last = "GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
            writer.write(("".join(map(one.format, range(count))) + last).encode())
            async with asyncio.timeout(60):
                answers = (await reader.read()).decode()
            writer.close()
        found = re.findall(r"x-request-id: (\d+)\r\n", answers)
        assert found == [str(number) for number in range(count)]
        assert answers.endswith('{"status":"ok"}')

    run(main)


def test_a_call_of_a_tool_may_have_any_number() -> None:
    calls = [{"index": index, "function": {"name": "f", "arguments": "{}"}} for index in (-5, 7, 0)]
    body = json.dumps({"choices": [{"delta": {"tool_calls": calls}}]})
    found = asyncio.run(read_events(b"text/event-stream", f"data: {body}\n\ndata: [DONE]\n\n".encode()))
    assert [call.name for call in found.choices[0].calls] == ["f", "f"]
