"""Texts with labels, asked of a router one by one: how often it is right, how soon, and at what cost."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import httpx
import numpy as np

from cascadia.onepass.questions import Question


@dataclass(frozen=True, slots=True)
class OnePassRun:
    """`accuracy` 0-100; `cpu_ms` of the engines for a text; `by_stage`: whose answers they were, 0-1."""

    model: str
    texts: int
    accuracy: float
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    texts_per_s: float
    by_stage: dict[str, float]


async def asked(
    url: str, model: str, texts: Sequence[Question], cpu_s: Callable[[], float], at_once: int = 64
) -> OnePassRun:
    """`cpu_s`: what the engines have spent so far. `at_once` requests are under way."""
    right, seconds, stages = 0, [], Counter[str]()
    waiting = list(reversed(texts))
    before_s, began_s = cpu_s(), perf_counter()

    async def one_after_another(client: httpx.AsyncClient) -> None:
        nonlocal right
        while waiting:
            text = waiting.pop()
            started_s = perf_counter()
            reply = await client.post("/v1/classify", json={"model": model, "input": text.text})
            seconds.append(perf_counter() - started_s)
            reply.raise_for_status()
            stages[reply.headers["x-cascadia-stage"]] += 1
            right += reply.json()["data"][0]["label"] == text.label

    async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False) as client:
        await asyncio.gather(*(one_after_another(client) for _ in range(at_once)))
    lasted_s, spent_s = perf_counter() - began_s, cpu_s() - before_s
    p50_s, p95_s = np.quantile(seconds, [0.5, 0.95])
    return OnePassRun(
        model=model,
        texts=len(texts),
        accuracy=100.0 * right / len(texts),
        p50_ms=1e3 * float(p50_s),
        p95_ms=1e3 * float(p95_s),
        cpu_ms=1e3 * spent_s / len(texts),
        texts_per_s=len(texts) / lasted_s,
        by_stage={name: count / len(texts) for name, count in stages.items()},
    )
