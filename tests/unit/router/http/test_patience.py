"""Patience with idle clients: who only may ask again makes room for who would ask now."""

import asyncio

import pytest

from cascadia.router.http import patience
from cascadia.router.server import server
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import run, running, stages, until


def test_idle_clients_make_room_where_few_more_may_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP_S", 0.01)
    monkeypatch.setattr(patience, "PARTING_S", 0.01)

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), max_connections=10) as up:
            idle = []

            async def another() -> None:
                idle.append(await asyncio.open_connection("127.0.0.1", up.port))
                reader, writer = idle[-1]
                writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

            for _ in range(9):
                await another()
            await asyncio.sleep(0.05)
            assert len(up.server.connections) == 9
            await another()
            await until(lambda: len(up.server.connections) <= 9)
            assert (await up.chat("small")).status_code == 200
            for _, writer in idle:
                writer.close()

    run(main)
