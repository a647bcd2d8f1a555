"""A short stream of mixed requests, sent at their own times whatever the engine does (an open loop)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np

from cascadia.clients.engines.sse import Streamed

PROMPTS = (16, 512)
ANSWERS = (8, 64)
"""Tokens; lengths are drawn between them, evenly in the logarithm."""


class Request(NamedTuple):
    """`at_s` after the start."""

    at_s: float
    input_tokens: int
    output_tokens: int


def mixed(rate_rps: float, seconds: float, longest: int, draw: np.random.Generator) -> list[Request]:
    """Poisson arrivals over `seconds`, prompts and answers of very different lengths, `longest` at most."""
    count = max(2, round(rate_rps * seconds))
    at_s = np.cumsum(draw.exponential(1 / rate_rps, count))
    lengths = lengths_of(count, longest, draw)
    return [Request(float(t), i, o) for t, (i, o) in zip(at_s, lengths, strict=True)]


def lengths_of(count: int, longest: int, draw: np.random.Generator) -> list[tuple[int, int]]:
    """(input, output) of so many requests."""
    most = max(PROMPTS[0], min(PROMPTS[1], longest - ANSWERS[1]))
    inputs, outputs = (
        np.rint(np.exp(draw.uniform(np.log(low), np.log(high), count))).astype(int)
        for low, high in ((PROMPTS[0], most), ANSWERS)
    )
    return list(zip(inputs.tolist(), outputs.tolist(), strict=True))


async def replay(
    requests: Sequence[Request],
    ask: Callable[[int, int], Awaitable[Streamed]],
    sleep: Callable[[float], Awaitable[None]],
    clock: Callable[[], float],
) -> list[Streamed]:
    """Each request at its time; all answers, in the requests' order."""
    began_s = clock()

    async def one(request: Request) -> Streamed:
        await sleep(max(0.0, began_s + request.at_s - clock()))
        return await ask(request.input_tokens, request.output_tokens)

    return list(await asyncio.gather(*(one(r) for r in requests)))
