"""The demo's large model as somebody else's API: an engine that no plan starts, with a key, a price and a limit.

What a stranger knows of an API is its prices, and how soon it answers: the latter is measured here, on questions that
no pass asks.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Child, Children
from cascadia.demo.measuring.asking import engine
from cascadia.demo.questions.prompt import request
from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import KEY_ENV, LARGE, engine_command, free_cores
from cascadia.files.text import write_whole

if TYPE_CHECKING:
    from openai import AsyncOpenAI

USD_PER_MILLION_INPUT_TOKENS, USD_PER_MILLION_OUTPUT_TOKENS = 0.5, 2.0
"""Prices of such small models at those who rent them out, about."""
USD_PER_CORE_HOUR = 0.03
"""A virtual core of a cloud, about."""
REQUESTS_PER_MINUTE = 180
KEY_FILE = "api-key"
MEASURED = 12
"""Questions by which its times are measured."""

Times = list[tuple[float, float]]
"""Seconds to the first token, and by each further one."""


def start_api(children: Children, weights: Path) -> Child:
    """Starts the API with a new key, which the environment keeps from now on, and does not wait."""
    port, file = free_port(), children.logs / KEY_FILE
    os.environ[KEY_ENV] = key = secrets.token_urlsafe()
    write_whole(file, f"{key}\n", mode=0o600)
    command = [*engine_command(LARGE, weights, port), "--api-key-file", str(file)]
    return children.start(LARGE.name, command, port, free_cores()[LARGE.name])


def measured(url: str) -> Times:
    """Times of answers asked for one after the other; the first, which reads the examples, is left out."""

    async def all_of() -> Times:
        async with engine(url) as client:
            return [await _timed(client, each.text) for each in training_questions(MEASURED + 1)]

    return asyncio.run(all_of())[1:]


async def _timed(client: "AsyncOpenAI", question: str) -> tuple[float, float]:
    began_s = time.perf_counter()
    first_s = last_s = 0.0
    tokens = 0
    async for chunk in await client.chat.completions.create(stream=True, **request(LARGE.name, question)):
        if chunk.choices and chunk.choices[0].delta.content:
            last_s = time.perf_counter() - began_s
            first_s = first_s or last_s
            tokens += 1
    return first_s, (last_s - first_s) / max(tokens - 1, 1)


def times_csv(times: Sequence[tuple[float, float]]) -> str:
    """Table of `times` as a spec's `latency` reads it."""
    return "ttft_s,tpot_s\n" + "".join(f"{first_s:.6f},{each_s:.6f}\n" for first_s, each_s in times)
