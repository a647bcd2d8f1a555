"""The least that a router on uvloop can cost: bytes passed on between two sockets, and nothing read or decided.

`python -m tests.benchmarks.router_floor ENGINE_PORT` prints its port and serves until its standard input closes.
"""

import asyncio
import sys

import uvloop


class Engine(asyncio.Protocol):
    def __init__(self, client: asyncio.Transport, first: bytes) -> None:
        self.client = client
        self.first = first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self.first)

    def data_received(self, data: bytes) -> None:
        self.client.write(data)


class Client(asyncio.Protocol):
    """A connection, with one of its own to the engine, and one request at a time."""

    def __init__(self, engine: int) -> None:
        self.port = engine
        self.opening: asyncio.Task[tuple[asyncio.Transport, Engine]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self.opening is None:
            loop = asyncio.get_running_loop()
            opening = loop.create_connection(lambda: Engine(self.transport, data), "127.0.0.1", self.port)
            self.opening = loop.create_task(opening)
        else:
            self.opening.result()[0].write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.opening is not None and self.opening.done():
            self.opening.result()[0].close()


async def main(engine: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(engine), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
