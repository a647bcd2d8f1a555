"""Answers that wait for their clients to read are held bytes: beyond `max_held_bytes` who is slowest goes first."""

import asyncio
import json
import socket
from contextlib import ExitStack
from typing import Any

from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages, until

ANSWER = completion("x" * 8_000_000)
"""More than sockets take."""
BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "q"}]}).encode()
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


async def long(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, ANSWER)


def test_clients_that_do_not_read_hold_no_more_than_the_limit_and_cost_nobody_his_answer() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=long)
        async with started(engine), running(stages(engine), max_held_bytes=20_000_000) as up:
            held = up.router.held
            with ExitStack() as left:
                for count in range(1, 6):
                    client = left.enter_context(socket.socket())
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    client.connect(("127.0.0.1", up.port))
                    client.sendall(REQUEST)
                    await until(lambda count=count: len(engine.requests) == count and not _asked(up))
                    assert 0 < held.used <= held.limit
                behind = sum(one.transport.get_write_buffer_size() for one in up.server.connections)
                assert behind <= held.limit
                assert (await up.chat("small")).content == ANSWER
            await until(lambda: len(up.server.connections) <= 1)
            assert held.used == 0

    def _asked(up: Any) -> bool:
        return bool(up.router.metrics.running)

    run(main)
