"""More than it can serve: 5,000 requests at once, and a minute of ten times the load that the engines bear.

The engine takes 50 requests at a time, 50 ms each: 1,000 a second, and what comes beyond waits or is refused. First the
rate that it bears, then ten times that from clients that neither wait nor go away, then that rate again.

    python -m tests.benchmarks.bench_overload [--quick]

Exits with 1 where a request has no answer, or where fewer than 90 % of the best rate are answered under overload.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import httptools
import uvloop

from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_load import request_of
from tests.benchmarks.router_rig import LOAD_CORE, SAID, Running, cascadia, memory_bytes, mock_engine, verdict

AT_ONCE = 5000
PLACES = 50
ANSWER_MS = 50
CAPACITY_RPS = PLACES * 1000 / ANSWER_MS
ASKED_GOODPUT = 0.9
CONNECTIONS = 600


@dataclass
class Seen:
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0


class _Asker(asyncio.Protocol):
    """One request at a time, each sent when it is told to."""

    def __init__(self, request: bytes, seen: Seen, free: "asyncio.Queue[_Asker]") -> None:
        self.request = request
        self.seen = seen
        self.free = free
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)

    def ask(self) -> None:
        self.busy = True
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.seen.statuses[self.parser.get_status_code()] += 1
        self.busy = False
        self.free.put_nowait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.lost += self.busy


async def askers(router: Running, count: int, seen: Seen) -> "asyncio.Queue[_Asker]":
    body = {"model": "small", "stream": False, "answer_ms": ANSWER_MS} | SAID
    request = request_of(body, router.key)
    free: asyncio.Queue[_Asker] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for _ in range(count):
        _, asker = await loop.create_connection(lambda: _Asker(request, seen, free), "127.0.0.1", router.port)
        free.put_nowait(asker)
    return free


async def at_once(router: Running, count: int) -> tuple[Seen, float]:
    """Requests of `count` clients in the same moment: what became of them, and when the last was answered."""
    seen = Seen()
    free = await askers(router, count, seen)
    all_of_them = [free.get_nowait() for _ in range(count)]
    start_s = time.perf_counter()
    for asker in all_of_them:
        asker.ask()
    async with asyncio.timeout(120):
        for _ in range(count):
            await free.get()
    for asker in all_of_them:
        asker.transport.close()
    return seen, time.perf_counter() - start_s


async def offered(router: Running, rps: float, seconds: float) -> tuple[Seen, float]:
    """`rps` requests a second whatever becomes of them, as far as connections are free: answers, and their rate."""
    seen = Seen()
    free = await askers(router, CONNECTIONS, seen)
    start_s, sent = time.perf_counter(), 0
    while (now_s := time.perf_counter() - start_s) < seconds:
        while sent < rps * now_s and not free.empty():
            free.get_nowait().ask()
            sent += 1
        # What had no connection free is not made up for.
        sent = max(sent, int(rps * now_s))
        await asyncio.sleep(0.001)
    goodput = seen.statuses[200] / seconds
    async with asyncio.timeout(60):
        while free.qsize() + seen.lost < CONNECTIONS:
            await asyncio.sleep(0.05)
    return seen, goodput


def told(seen: Seen) -> str:
    return ", ".join(f"{count:,} × {status}" for status, count in sorted(seen.statuses.items()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="ten seconds in place of a minute")
    given = parser.parse_args()
    long_s, short_s = (10.0, 5.0) if given.quick else (60.0, 10.0)
    os.sched_setaffinity(0, {LOAD_CORE})
    rows, said = [], []
    with mock_engine() as port:
        with cascadia(port) as ours:
            seen, took_s = uvloop.run(at_once(ours, AT_ONCE))
            assert ours.pid is not None
            memory = f"{memory_bytes(ours.pid) / 1e6:.0f} MB"
            rows.append(
                (
                    f"{AT_ONCE:,} at once, places for all",
                    told(seen),
                    f"{took_s:.1f} s",
                    memory,
                    f"{seen.lost}",
                )
            )
            served = seen.statuses[200] / AT_ONCE
            said.append(verdict("answered of those at once", served, 1.0, least=True))
        # A short queue: who would wait in vain is told so.
        with cascadia(port, limits={"max_queue": 500, "queue_s": 5}, places=PLACES) as ours:
            assert ours.pid is not None
            rates = {}
            for name, rps, seconds in (
                ("the load it bears", 1.2 * CAPACITY_RPS, short_s),
                ("ten times that", 10 * CAPACITY_RPS, long_s),
                ("the load it bears, after that", 1.2 * CAPACITY_RPS, short_s),
            ):
                seen, rates[name] = uvloop.run(offered(ours, rps, seconds))
                memory = f"{memory_bytes(ours.pid) / 1e6:.0f} MB"
                rows.append((name, told(seen), f"{rates[name]:,.0f}/s good", memory, f"{seen.lost}"))
            best, worst, after = rates.values()
            said.append(verdict("goodput under ten times the load", worst / best, ASKED_GOODPUT, least=True))
            said.append(verdict("goodput after it", after / best, ASKED_GOODPUT, least=True))
    print(f"\n{markdown(('', 'answers', '', 'memory', 'lost'), rows, text_columns=2)}\n")
    print("\n".join(line for line, _ in said), flush=True)
    return 0 if all(kept for _, kept in said) and not any(int(row[-1]) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
