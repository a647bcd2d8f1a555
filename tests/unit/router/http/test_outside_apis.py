"""A stage that is somebody else's API, and fails as those do: the cascade goes on, and who named it is told once."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from cascadia.router.settings.model import ReplicaSettings, RouterSettings
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, delta, event, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages

SOON = {"idle_s": 1.0, "first_byte_s": 1.0}
"""Of what drips; all else fails by itself."""


def whole(status: int, more: str = "", body: bytes = b"{}") -> Answer:
    async def answer(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, status, body, more=more)

    return answer


async def drips_body(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n")
    await dripped(writer, b" ")


async def drips_head(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await dripped(writer, b"x: y\r\n")


async def says_hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 hello\r\n")
    writer.close()


async def dripped(writer: asyncio.StreamWriter, part: bytes) -> None:
    while True:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.02)


async def resets(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    event(writer, delta("half"))
    await writer.drain()
    writer.transport.abort()


async def never_ends_an_event(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


ELSEWHERE = "location: http://127.0.0.1:1/v1\r\n"
FAILURES: dict[str, tuple[str | Answer, int, int]] = {
    "its name is unknown": ("http://no-such-host.invalid", 502, 502),
    "its name is none": ("http://a..b", 502, 502),
    "it speaks no TLS": ("https", 502, 502),
    "its body drips": (drips_body, 504, 502),
    "its head drips": (drips_head, 504, 504),
    "it redirects": (whole(302, ELSEWHERE), 502, 502),
    "it fails": (whole(500), 502, 502),
    "it has nothing": (whole(204, body=b""), 502, 502),
    "it resets": (resets, 502, 200),
    "its event has no end": (never_ends_an_event, 502, 200),
    "its key is wrong": (whole(401), 502, 502),
}


@pytest.mark.long(in_ci=4)
@pytest.mark.parametrize("name", FAILURES)
def test_the_cascade_goes_on_and_who_named_it_is_told(name: str) -> None:
    fails, status, of_stream = FAILURES[name]

    async def main() -> None:
        engine, large = FakeEngine(answer=None if isinstance(fails, str) else fails), FakeEngine("fine")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(started(engine, large))
            url = fails if isinstance(fails, str) else engine.url
            if url == "https":
                plain = await stack.enter_async_context(await asyncio.start_server(says_hello, "127.0.0.1"))
                url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
            first, last = stages(engine, large, thresholds=(50.0,))
            settings = RouterSettings(
                (replace(first, replicas=(ReplicaSettings(url, health_path=None),)), last), None, health=QUICK
            )
            more = SOON if "drips" in name else {"connect_s": 5.0}
            router = running(settings, ScriptedGate({}), max_answer_bytes=300_000, **more)
            up = await stack.enter_async_context(router)
            for stream in (False, True):
                async with asyncio.timeout(60):
                    goes_on = await up.chat(stream=stream)
                    told = await up.chat("small", stream=stream)
                assert (goes_on.status_code, goes_on.headers["x-cascadia-stage"]) == (200, "large")
                assert told.status_code == (of_stream if stream else status)
                # Of a stream that has begun the last event says it.
                assert told.text.count('"error"') == 1
            assert up.router.service.running == 0

    run(main)
