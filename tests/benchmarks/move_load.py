"""Clients that ask a router without pause while its fleet is moved, and what became of their requests."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx
import numpy as np

CONNECTIONS = 4


@dataclass(slots=True)
class Load:
    """Answers so far: when, after how long, and with which status (0: none)."""

    at_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    status: list[int] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(status != 200 for status in self.status)

    def p95_ms(self, spans: list[tuple[float, float]]) -> float:
        at, took = np.array(self.at_s), np.array(self.took_s)
        inside = np.zeros(len(at), bool)
        for begin, end in spans:
            inside |= (at >= begin) & (at < end)
        return float(np.quantile(took[inside], 0.95) * 1e3) if inside.any() else float("nan")


@asynccontextmanager
async def under_load(url: str, load: Load, models: tuple[str, ...]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
        asking = [asyncio.create_task(_ask(client, load, stop, models)) for _ in range(CONNECTIONS)]
        yield
        stop.set()
        await asyncio.gather(*asking)


async def _ask(client: httpx.AsyncClient, load: Load, stop: asyncio.Event, models: tuple[str, ...]) -> None:
    bodies = [
        {"model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1}
        for model in models
    ]
    while not stop.is_set():
        for body in bodies:
            began_s = time.monotonic()
            status = 0
            with suppress(httpx.HTTPError):
                status = (await client.post("/v1/chat/completions", json=body)).status_code
            load.at_s.append(began_s)
            load.took_s.append(time.monotonic() - began_s)
            load.status.append(status)
