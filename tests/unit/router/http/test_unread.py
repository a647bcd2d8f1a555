"""Clients that ask on before they are answered, and are not read from meanwhile: those that leave are missed."""

import asyncio
import json
import socket

import pytest

from cascadia.router.server import server
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages, until
from tests.unit.router.http.test_odd_clients import hangs


@pytest.fixture(autouse=True)
def _looked_over_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP_S", 0.01)


def post(model: str = "small", *, stream: bool = False, version: str = "1.1") -> bytes:
    body = json.dumps(
        {"model": model, "stream": stream, "messages": [{"role": "user", "content": "q"}]}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/{version}\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def sent_at_once(client: socket.socket, data: bytes) -> int:
    """Bytes of `data` that the sockets took."""
    sent = 0
    try:
        while sent < len(data):
            sent += client.send(data[sent:])
    except BlockingIOError:
        pass
    return sent


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("ahead", [1, 100_000])
@pytest.mark.parametrize("stream", [False, True])
def test_one_that_leaves_has_its_engine_stopped_whatever_it_sent(
    model: str, ahead: int, *, stream: bool
) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=hangs)
        async with started(engine), running(stages(engine)) as up:
            with socket.create_connection(("127.0.0.1", up.port)) as client:
                client.setblocking(False)
                client.sendall(post(model, stream=stream))
                await engine.arrived.wait()
                (connection,) = (one for one in up.server.connections if one.running is not None)
                wanted = post() * ahead
                assert (sent_at_once(client, wanted) == len(wanted)) == (ahead == 1)
                await until(lambda: connection._unread)
            await asyncio.wait_for(engine.left.wait(), 60.0)
            await until(lambda: bool(up.lines))
        assert len(engine.requests) == 1
        assert [line["status"] for line in up.lines] == [499]

    run(main)


def test_one_that_has_sent_its_last_gets_all_its_answers() -> None:
    go = asyncio.Event()

    async def later(engine: FakeEngine, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        await asyncio.wait_for(go.wait(), 60.0)
        send(writer, 200, completion("an answer"))

    async def main() -> None:
        engine = FakeEngine(answer=later)
        async with started(engine), running(stages(engine)) as up:
            reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(post())
            await engine.arrived.wait()
            writer.write(post() * 2)
            writer.write_eof()
            # Asked by something without meaning whether it is still there.
            heard = await asyncio.wait_for(reader.readuntil(b"HTTP/1.1 100 Continue\r\n\r\n"), 60.0)
            go.set()
            heard += await asyncio.wait_for(reader.read(), 60.0)
            writer.close()
        assert heard.count(b"an answer") == heard.count(b"HTTP/1.1 200") == 3

    run(main)
