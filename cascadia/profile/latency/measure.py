"""Times an engine at given points: decoding per iteration, single prompts to their first token."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia.clients.engines.sse import Streamed
from cascadia.profile.latency.asker import Asker
from cascadia.profile.latency.points import Point

# Pieces that a batch's decoding is cut into; their median is what counts, so that a hiccup spoils one of them.
PIECES = 6
# Of the client's own processor time: above this share of the wall clock it measures itself.
SATURATED = 0.8


@dataclass(frozen=True, slots=True)
class Seen:
    """One measurement at a point. `context_tokens`: on average over the time measured, all sequences together.

    `seconds`: of one iteration where the point decodes, else to the first token.
    """

    point: Point
    prompt_tokens: float
    context_tokens: float
    seconds: float


class AtMost(NamedTuple):
    """The engine worked on so many of a point's sequences at once, and let the others wait."""

    sequences: int


async def measure(asker: Asker, point: Point) -> Seen | AtMost | str:
    """One measurement; or why it says nothing."""
    clock = asker.client.clock
    began_s, worked_s = clock(), time.process_time()
    found = await asyncio.gather(
        *(asker.ask(point.prompt_tokens, point.output_tokens) for _ in range(point.sequences))
    )
    # A client that is short of CPU itself sees tokens late, and would blame the engine for it.
    busy = (time.process_time() - worked_s) / max(clock() - began_s, 1e-9)
    if not point.decodes:
        return first_token(point, found)
    if busy > SATURATED:
        return f"this program was busy {busy:.0%} of the time"
    return decoding(point, found)


def first_token(point: Point, found: Sequence[Streamed]) -> Seen:
    prompt = float(np.mean([one.prompt_tokens for one in found]))
    return Seen(point, prompt, prompt, float(np.median([one.ttft_s for one in found])))


def decoding(point: Point, found: Sequence[Streamed]) -> Seen | AtMost | str:
    """Measures decoding: between the last first token and the first last token, all sequences decode and
    nothing else happens.
    """
    start_s = max(one.chunks_s[0] for one in found)
    end_s = min(one.chunks_s[-1] for one in found)
    edges_s = np.linspace(start_s, max(start_s, end_s), PIECES + 1)
    written = np.array([[one.tokens_by(edge) for edge in edges_s] for one in found])
    together = sum(1 for one in found if one.chunks_s[0] < end_s)
    if together < point.sequences:
        return AtMost(together)
    if (written[:, -1] - written[:, 0]).mean() < PIECES:
        return "they did not decode together for long enough"
    steps = np.diff(written.mean(axis=0))
    prompt = float(np.mean([one.prompt_tokens for one in found]))
    context = point.sequences * prompt + float(written.sum(axis=0).mean())
    pieces_s = np.diff(edges_s)[steps > 0] / steps[steps > 0]
    return Seen(point, prompt, context, float(np.median(pieces_s)))
