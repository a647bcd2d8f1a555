"""Odd clients: they half-close, name no host or two, compress their body, or ask what breaks engines."""

import asyncio
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import Running, ScriptedGate, run, running, stages, until

BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "q"}]}).encode()


def post(body: bytes = BODY, *, version: str = "1.1", host: str = "host: x\r\n", more: str = "") -> bytes:
    head = f"POST /v1/chat/completions HTTP/{version}\r\n{host}{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def said(up: Running, request: bytes, *, half: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    writer.write(request)
    if half:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 60.0)
    finally:
        writer.close()


async def _meanwhile() -> None:
    """Turns of the loop that all of one process share: enough to hear that a client has sent its last."""
    for _ in range(200):
        await asyncio.sleep(0)


async def later(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    await _meanwhile()
    if body.get("stream"):
        begin_stream(writer)
        event(writer, delta("a"))
        await writer.drain()
        await _meanwhile()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
    else:
        send(writer, 200, completion("an answer"))


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_has_sent_its_last_gets_its_answer(model: str, stream: bool) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=later)
        async with started(engine), running(stages(engine)) as up:
            body = json.dumps({**json.loads(BODY), "model": model, "stream": stream}).encode()
            heard = await said(up, post(body), half=True)
        assert b"HTTP/1.1 200 OK" in heard
        assert (b"[DONE]" if stream else b"an answer") in heard

    run(main)


async def hangs(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """An engine that has begun to answer, and answers on until its client leaves."""
    if body.get("stream"):
        begin_stream(writer)
        event(writer, delta("a"))
        await writer.drain()
    await engine.left.wait()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_is_gone_has_its_engine_stopped(stream: bool) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=hangs)
        async with started(engine), running(stages(engine)) as up:
            _, writer = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(post(json.dumps({**json.loads(BODY), "stream": stream}).encode()))
            await engine.arrived.wait()
            await asyncio.sleep(0.05)
            writer.close()
            await asyncio.wait_for(engine.left.wait(), 60.0)

    run(main)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post(host=""), b"400"),
        (post(host="host: a\r\nhost: b\r\n"), b"400"),
        (post(host="host: a\r\nHost: a\r\n"), b"400"),
        (post(host="host:\r\n"), b"200"),
        (post(host="", version="1.0"), b"200"),
        (post(gzip.compress(BODY), more="content-encoding: gzip\r\n"), b"415"),
        (post(more="content-encoding: identity\r\n"), b"200"),
        (b"GET /health HTTP/1.1\r\n\r\n", b"400"),
    ],
)
def test_what_cannot_be_meant_is_refused(request_: bytes, status: bytes) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            # HTTP/1.0 has no interim responses: whether such a client is still there cannot be told.
            heard = await said(up, request_, half=b"HTTP/1.0" not in request_)
        assert [line.split()[1] for line in heard.split(b"\r\n") if line.startswith(b"HTTP/")][-1] == status

    run(main)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("seconds", [-5, 1])
def test_an_engine_that_says_until_when_it_is_full_is_left_alone_until_then(
    status: int, seconds: int
) -> None:
    async def full(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) > 1:
            send(writer, 200, completion("at last"))
            return
        full_until = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
        send(writer, status, b"{}", more=f"retry-after: {full_until}\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=full)
        async with started(engine), running(stages(engine), breaker_failures=1) as up:
            answer = await up.chat("small")
        assert answer.status_code == 200

    run(main)


def test_a_request_that_breaks_engines_is_not_tried_on_all_of_them() -> None:
    async def breaks(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def main() -> None:
        small, large = ([FakeEngine(answer=breaks) for _ in range(5)] for _ in range(2))
        async with started(*small, *large):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, ScriptedGate({}), max_tries=5) as up:
                answer = await up.chat()
        assert answer.status_code == 502
        # One that was kept connected may be asked once more, on a fresh connection.
        assert sum(bool(engine.requests) for engine in small) == 2
        assert sum(bool(engine.requests) for engine in large) == 1

    run(main)


@pytest.mark.parametrize(("rule", "stage"), [("wait", "small"), ("escalate", "large")])
def test_where_a_stage_is_busy_a_request_waits_or_goes_to_a_larger_one_with_room(
    rule: Any, stage: str
) -> None:
    async def busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await asyncio.wait_for(go.wait(), 60.0)
        send(writer, 200, completion("small"))

    go = asyncio.Event()

    async def main() -> None:
        small, large = FakeEngine(answer=busy), FakeEngine("large")
        async with started(small, large):
            first, last = stages(small, large, thresholds=(50,))
            one = tuple(replace(each, max_concurrency=1) for each in first.replicas)
            settings = (replace(first, replicas=one, on_overload=rule), last)
            async with running(settings, ScriptedGate({"small": 100.0})) as up:
                waits = asyncio.create_task(up.chat("small"))
                await small.arrived.wait()
                asked = asyncio.create_task(up.chat())
                await until(lambda: asked.done() or len(up.router.stages[0].wait_queue) == 1)
                go.set()
                answer = await asked
                await waits
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == stage
        assert ('cascadia_stage_escalated_total{reason="busy",stage="small"} 1.0' in metrics) == (
            stage == "large"
        )

    run(main)
