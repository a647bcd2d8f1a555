"""Two million requests of all kinds through one router: does memory, or anything else, grow?

Whole answers, streams, cascades, mistakes of clients, and clients that leave, through a mock engine. After each slice
the router is left alone for a moment, and looked at: memory, descriptors, requests under way.

    python -m tests.benchmarks.bench_soak [--requests N]

Exits with 1 where memory still grew by more than asked in the second half, or where anything is left over.
"""

import argparse
import asyncio
import http.client
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import httptools
import numpy as np
import uvloop

from tests.benchmarks.report_table import markdown
from tests.benchmarks.router_load import request_of
from tests.benchmarks.router_rig import LOAD_CORE, SAID, Running, cascadia, memory_bytes, mock_engine, verdict

REQUESTS = 2_000_000
SLICES = 20
CONNECTIONS = 48
ASKED_MB_PER_MILLION = 1.0
LEAVES = "leaves"
RIGHT = ("whole: 200", "stream: 200", "cascade: 200", "no such model: 404", "no JSON: 400")
MIX = {"whole": 0.80, "stream": 0.06, "cascade": 0.06, "no such model": 0.02, "no JSON": 0.02, LEAVES: 0.04}


def requests(key: str | None) -> dict[str, bytes]:
    small = {"model": "small", "stream": False} | SAID
    broken = request_of(small, key)
    return {
        "whole": request_of(small, key),
        "stream": request_of(small | {"stream": True}, key),
        "cascade": request_of(small | {"model": "cascadia"}, key),
        "no such model": request_of(small | {"model": "gpt"}, key),
        "no JSON": broken[:-1] + b"]",
        LEAVES: request_of(small | {"answer_ms": 1000}, key),
    }


class Mixed(asyncio.Protocol):
    """One request after another, of kinds by chance, until `left` is used up; who leaves comes back."""

    def __init__(
        self, port: int, asked: dict[str, bytes], left: list[int], seen: Counter[str], rng: random.Random
    ):
        self.port, self.asked, self.left, self.seen, self.rng = port, asked, left, seen, rng
        self.loop = asyncio.get_running_loop()
        self.done = self.loop.create_future()
        self.kind = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpResponseParser(self)
        self.send()

    def send(self) -> None:
        if self.left[0] <= 0:
            self.kind = ""
            self.transport.close()
            return
        self.left[0] -= 1
        (self.kind,) = self.rng.choices(list(MIX), list(MIX.values()))
        self.transport.write(self.asked[self.kind])
        if self.kind == LEAVES:
            self.loop.call_later(0.002, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.seen[f"{self.kind}: {self.parser.get_status_code()}"] += 1
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.kind == LEAVES:
            self.seen[LEAVES] += 1
            self.kind = ""
            self.again = self.loop.create_task(self.return_())
        elif not self.done.done():
            if self.kind:
                self.seen[f"{self.kind}: lost"] += 1
            self.done.set_result(None)

    async def return_(self) -> None:
        await self.loop.create_connection(lambda: self, "127.0.0.1", self.port)


async def slice_of(router: Running, count: int, seed: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    left, rng, asked = [count], random.Random(seed), requests(router.key)
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(CONNECTIONS):
        make = lambda: Mixed(router.port, asked, left, seen, rng)  # noqa: E731
        _, client = await loop.create_connection(make, "127.0.0.1", router.port)
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    return seen


def counted(router: Running, metric: str) -> list[str]:
    """The lines of `metric`, each ending with a figure."""
    asking = http.client.HTTPConnection("127.0.0.1", router.port, timeout=10)
    asking.request("GET", "/metrics", headers={"authorization": f"Bearer {router.key}"})
    lines = asking.getresponse().read().decode().splitlines()
    asking.close()
    return [line for line in lines if line.startswith(metric)]


def under_way(router: Running) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in counted(router, "cascadia_in_flight"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=REQUESTS)
    given = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    seen: Counter[str] = Counter()
    rows, memory, descriptors, left_over = [], [], [], []
    # The page keeps a quarter of an hour of figures, however few or many the requests: that is not what is looked for.
    with mock_engine() as port, cascadia(port, page=False) as ours:
        start_s = time.perf_counter()
        for at in range(SLICES):
            seen += uvloop.run(slice_of(ours, given.requests // SLICES, at))
            time.sleep(1.0)
            memory.append(memory_bytes(ours.pid or 0) / 1e6)
            descriptors.append(len(list(Path(f"/proc/{ours.pid}/fd").iterdir())))
            left_over.append(under_way(ours))
            asked = (at + 1) * (given.requests // SLICES)
            took_s = time.perf_counter() - start_s
            rows.append(
                (
                    f"{asked:,}",
                    f"{took_s:.0f}",
                    f"{memory[-1]:.1f}",
                    f"{descriptors[-1]}",
                    f"{left_over[-1]:.0f}",
                )
            )
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
        failures = counted(ours, "cascadia_upstream_errors_total")
    columns = ("requests", "s", "memory MB", "descriptors", "under way")
    print(
        f"\n{markdown(columns, rows)}\n\n{', '.join(f'{kind} {n:,}' for kind, n in sorted(seen.items()))}\n"
    )
    # A client that left had its engine's answer broken off by us: that is no failure and not among these.
    print("\n".join(failures))
    wrong = sum(n for kind, n in seen.items() if kind not in (LEAVES, *RIGHT))
    # What is kept up to a limit is full by the second half; what goes on growing has no limit.
    half = SLICES // 2
    millions = np.arange(SLICES - half) * (given.requests / SLICES) / 1e6
    grown = float(np.polyfit(millions, memory[half:], 1)[0])
    said = [
        verdict(
            "growth of memory in the second half",
            grown,
            ASKED_MB_PER_MILLION,
            least=False,
            unit=" MB a million requests",
        ),
        verdict("descriptors", max(descriptors), 4 * CONNECTIONS, least=False, unit=""),
        verdict("requests under way when nothing is asked", max(left_over), 0, least=False, unit=""),
        verdict(
            "answers of another status than they should have, or none",
            wrong,
            0,
            least=False,
            unit="",
        ),
    ]
    print("\n".join(line for line, _ in said), flush=True)
    return 0 if all(kept for _, kept in said) else 1


if __name__ == "__main__":
    sys.exit(main())
