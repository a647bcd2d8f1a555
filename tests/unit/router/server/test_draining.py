"""A server that ends loses nobody: not who was about to ask on an open connection, nor who is not taken yet."""

import asyncio
import json
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.clients.processes.ports import listen
from cascadia.router.http.patience import PARTING_S, Patience
from cascadia.router.server.server import waiting_at
from cascadia.router.settings.model import Limits
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send
from cascadia.testing.routers import run, running, stages, started, until


def post(*, stream: bool) -> bytes:
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "q"}], "stream": stream})
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    )


@pytest.mark.parametrize("stream", [False, True])
def test_who_was_not_told_that_the_connection_ends_may_ask_once_more(*, stream: bool) -> None:
    """Idle when the drain begins, or in a stream that began before and told nothing of it either."""
    go = asyncio.Event()

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body["stream"]:
            begin_stream(writer)
            event(writer, delta("a"))
            await go.wait()
            event(writer, "[DONE]")
            writer.write(b"0\r\n\r\n")
        else:
            send(writer, 200, completion("an answer"))

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine)) as up:
            reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(post(stream=stream))
            assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n")
            up.server.drain()
            await until(lambda: up.server.closing)
            go.set()
            await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n" if stream else b"}}")
            writer.write(post(stream=False))
            told = await asyncio.wait_for(reader.read(), 60.0)
            assert told.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in told
            writer.close()

    run(main)


def test_whoever_is_connected_when_the_port_closes_is_taken() -> None:
    with listen("127.0.0.1", 0) as listening:
        clients = [socket.create_connection(listening.getsockname(), timeout=60) for _ in range(5)]
        taken = list(waiting_at(listening))
    assert [one.getpeername() for one in taken] == [one.getsockname() for one in clients]
    for one in (*clients, *taken):
        one.close()


def test_an_idle_client_of_a_server_that_ends_is_waited_for_a_moment_and_no_longer() -> None:
    now = SimpleNamespace(time=lambda: 100.0)
    patience = Patience(now, Limits())  # type: ignore[arg-type]
    patience.begin()
    assert not patience.is_over("parting", 100.0 + PARTING_S)
    assert patience.is_over("parting", 100.1 + PARTING_S)
    assert not patience.is_over("idle", 100.1 + PARTING_S)


def test_a_server_told_twice_to_drain_drains_and_told_twice_to_stop_stops() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=never)
        async with started(engine), running(stages(engine)) as up:
            asking = asyncio.create_task(up.chat("small"))
            await engine.arrived.wait()
            up.server.drain()
            up.server.drain()
            await until(lambda: up.server.closing)
            assert not asking.done()
            up.server.stop()
            with pytest.raises(Exception, match="disconnected"):
                await asking

    run(main)


async def never(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()
