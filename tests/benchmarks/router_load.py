"""A closed loop of connections that each send one request after another, on uvloop; counts and latencies."""

import asyncio
import json
import time
from dataclasses import dataclass, field

import httptools
import numpy as np


@dataclass
class Load:
    """`latency_s` of every answer; `bad` counts those that were not 200 or came too short."""

    latency_s: list[float] = field(default_factory=list)
    bad: int = 0
    wall_s: float = 0.0

    @property
    def rps(self) -> float:
        return len(self.latency_s) / self.wall_s

    def quantile_us(self, q: float) -> float:
        return float(np.quantile(self.latency_s, q) * 1e6)


class _Client(asyncio.Protocol):
    def __init__(self, load: Load, request: bytes, until_s: float) -> None:
        self.load = load
        self.request = request
        self.until_s = until_s
        self.loop = asyncio.get_running_loop()
        self.done = self.loop.create_future()
        self.sent_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)
        self.send()

    def send(self) -> None:
        self.sent_s = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        now_s = time.perf_counter()
        self.load.latency_s.append(now_s - self.sent_s)
        self.load.bad += self.parser.get_status_code() != 200
        if now_s >= self.until_s:
            self.transport.close()
        else:
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def request_of(body: dict[str, object], key: str | None = None) -> bytes:
    """A POST of `body` to /v1/chat/completions."""
    content = json.dumps(body, separators=(",", ":")).encode()
    secret = f"authorization: Bearer {key}\r\n" if key else ""
    length = f"content-length: {len(content)}\r\n\r\n"
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{secret}content-type: application/json\r\n{length}"
    )
    return head.encode() + content


async def closed_loop(
    port: int, body: dict[str, object], connections: int, seconds: float, key: str | None = None
) -> Load:
    """Sends `body` for `seconds`."""
    request = request_of(body, key)
    load, loop = Load(), asyncio.get_running_loop()
    start_s = time.perf_counter()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: _Client(load, request, start_s + seconds), "127.0.0.1", port
        )
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    load.wall_s = time.perf_counter() - start_s
    return load
