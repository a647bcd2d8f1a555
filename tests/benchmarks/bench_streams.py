"""Streams: how late their parts come, and what an idle one weighs.

500 streams at once, each of 50 parts, one every 30 ms from a moment of its own. The engine writes into each when it
sent it, by a clock that the client shares: the delay is from there to the client, through the router and without it.

    python -m tests.benchmarks.bench_streams [--quick] [--no-peers]

Rounds go through the engine alone, this router and vllm-router in turn; whoever is not measured is stopped. Exits with
1 where the delay that the router adds, its tail beside vllm-router's, or the memory of an idle stream, is more than
asked.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import uvloop

from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_load import request_of
from tests.benchmarks.router_peers import RUST, peer_running
from tests.benchmarks.router_rig import (
    LOAD_CORE,
    ROUTER_CORE,
    SAID,
    Running,
    cascadia,
    cpu_s,
    memory_bytes,
    mock_engine,
    ratio,
    stopped,
    verdict,
)

STREAMS = 500
PARTS = 50
EVERY_MS = 30
ASKED_DELAY_MS = 2.0
ASKED_IDLE_KB = 30.0
ASKED_TAIL = 2.0
ROUNDS = 5
IDLE = 2000
MARK = b'"sent_ns":'


class _Reader(asyncio.Protocol):
    """Notes the delay of each part that it gets; `told` after the first, `done` at the end."""

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.delays_ms: list[float] = []
        self.told: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        data = self.rest + data
        whole = data.rfind(b"\n") + 1
        self.rest = data[whole:]
        for part in data[:whole].split(MARK)[1:]:
            self.delays_ms.append((now_ns - int(part[: part.index(b"}")])) / 1e6)
        if not self.told.done():
            self.told.set_result(None)
        if b"[DONE]" in data:
            self.end()

    def end(self) -> None:
        self.transport.close()
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self.told, self.done):
            if not waiting.done():
                waiting.set_result(None)


async def opened(port: int, request: bytes, count: int, gap_s: float) -> list[_Reader]:
    loop = asyncio.get_running_loop()
    readers = []
    for _ in range(count):
        _, reader = await loop.create_connection(lambda: _Reader(request), "127.0.0.1", port)
        readers.append(reader)
        await asyncio.sleep(gap_s)
    return readers


async def delays(port: int, key: str | None, streams: int) -> np.ndarray:
    body = {"model": "small", "stream": True, "parts": PARTS, "every_ms": EVERY_MS} | SAID
    # A collection of the load's own garbage would be taken for a delay on the way.
    gc.collect()
    gc.disable()
    try:
        readers = await opened(port, request_of(body, key), streams, EVERY_MS / 1000 / 50)
        await asyncio.gather(*(reader.done for reader in readers))
    finally:
        gc.enable()
    return np.array([delay for reader in readers for delay in reader.delays_ms])


def measured(router: Running, streams: int) -> tuple[np.ndarray, float]:
    """Delays of all parts, and the share of a core that the router took."""
    before_s, start_s = (cpu_s(router.pid) if router.pid else 0.0), time.perf_counter()
    found = uvloop.run(delays(router.port, router.key, streams))
    spent_s = (cpu_s(router.pid) - before_s) if router.pid else 0.0
    return found, spent_s / (time.perf_counter() - start_s)


async def idle_bytes(router: Running, steps: tuple[int, ...]) -> list[int]:
    """The router's memory with so many streams open that have had one part and get no other."""
    assert router.pid is not None
    body = {"model": "small", "stream": True, "parts": 2, "every_ms": 60_000} | SAID
    request = request_of(body, router.key)
    found, readers = [], []
    for step in steps:
        more = await opened(router.port, request, step - len(readers), 0.0)
        await asyncio.gather(*(reader.told for reader in more))
        readers += more
        await asyncio.sleep(0.5)
        found.append(memory_bytes(router.pid))
    for reader in readers:
        reader.end()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer streams")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    given = parser.parse_args()
    streams, idle = (STREAMS, IDLE) if not given.quick else (200, 500)
    os.sched_setaffinity(0, {LOAD_CORE})
    rows, p99_ms = [], {}
    tails_ms: dict[str, list[float]] = {}
    with ExitStack() as stack:
        port = stack.enter_context(mock_engine())
        ours = stack.enter_context(cascadia(port))
        routers = [Running("engine alone", port, None), ours]
        if not given.no_peers:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            routers.append(stack.enter_context(peer_running(RUST[0], port, ROUTER_CORE, scratch)))
        rounds = []
        for _ in range(ROUNDS):
            rounds.append([])
            for router in routers:
                with stopped(routers, router):
                    rounds[-1].append(measured(router, streams))
        for router, found in zip(routers, zip(*rounds, strict=True), strict=True):
            quantiles = np.median([np.quantile(d, (0.5, 0.99, 0.999)) for d, _ in found], axis=0)
            tails_ms[router.name] = [float(np.quantile(d, 0.999)) for d, _ in found]
            lost = ROUNDS * streams * PARTS - sum(len(d) for d, _ in found)
            p99_ms[router.name] = float(min(np.quantile(d, 0.99) for d, _ in found))
            share = float(np.median([share for _, share in found]))
            rows.append((router.name, *(f"{q:.2f}" for q in quantiles), f"{share:.0%}", f"{lost}"))
        title = ("", "p50 ms", "p99 ms", "p99.9 ms", "of the router's core", "parts lost")
        print(
            f"\n### {streams} streams of {PARTS} parts, one every {EVERY_MS} ms\n\n{markdown(title, rows)}\n"
        )
        steps = tuple(idle * k // 4 for k in (1, 2, 3, 4))
        held = uvloop.run(idle_bytes(ours, steps))
    each_kb = [
        (b - a) / (n - m) / 1000 for (a, b), (m, n) in zip(pairwise(held), pairwise(steps), strict=True)
    ]
    weights = [(f"{n:,}", f"{b / 1e6:.1f}") for n, b in zip(steps, held, strict=True)]
    print(f"### Idle streams\n\n{markdown(('streams', 'MB'), weights)}\n")
    added_ms = p99_ms["cascadia"] - p99_ms["engine alone"]
    said = [
        verdict("delay added at p99", added_ms, ASKED_DELAY_MS, least=False, unit=" ms"),
        verdict("memory of an idle stream", float(np.mean(each_kb)), ASKED_IDLE_KB, least=False, unit=" kB"),
    ]
    if not given.no_peers:
        beside = ratio(tails_ms["cascadia"], tails_ms["vllm-router"])
        said.append(verdict("p99.9 beside vllm-router's", beside, ASKED_TAIL, least=False))
    print("\n".join(line for line, _ in said), flush=True)
    return 0 if all(kept for _, kept in said) and not any(int(row[-1]) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
