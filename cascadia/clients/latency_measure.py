"""Times an engine at given points: decoding per iteration, single prompts to their first token."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cascadia.clients.latency_points import Point
from cascadia.clients.made_up_prompts import MadeUp
from cascadia.clients.openai_engine import OpenAIEngine
from cascadia.clients.openai_stream import Streamed
from cascadia.domain.errors import BadInput

# Pieces that a batch's decoding is cut into; their median is what counts, so that a hiccup spoils one of them.
PIECES = 6
# Of the client's own processor time: above this share of the wall clock it measures itself.
SATURATED = 0.8
# Of the time for all points, the most that one measurement may take.
LARGEST_SHARE = 0.12


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


class Rounds(NamedTuple):
    """Measurements by point, why the others have none, and the engine's limit of sequences where it was met."""

    seen: dict[Point, list[Seen]]
    left_out: dict[Point, str]
    at_most: int | None


class Asker:
    """Asks for answers of an exact length, in the way that the engine understands."""

    def __init__(self, client: OpenAIEngine, prompts: MadeUp) -> None:
        self.client = client
        self.prompts = prompts
        self._path = "/completions"
        self._exact: dict[str, Any] = {"ignore_eos": True}

    async def settle(self) -> tuple[Point, float]:
        """Finds out what the engine understands, warms it up, and learns how it counts tokens.

        Returns a request and how many seconds it took.
        """
        for path, exact in (
            ("/completions", {"ignore_eos": True}),
            ("/completions", {}),
            ("/chat/completions", {"ignore_eos": True}),
            ("/chat/completions", {}),
        ):
            self._path, self._exact = path, exact
            try:
                few = await self._words(8)
                break
            except BadInput as error:
                if (path, exact) == ("/chat/completions", {}) or error.where != "--base-url":
                    raise
                if " answers 4" not in error.what:
                    raise
        began_s = self.client.clock()
        many = await self._words(72)
        self.prompts = self.prompts.counted((8, few), (72, many))
        return Point(1, many, 8), self.client.clock() - began_s

    async def ask(self, prompt_tokens: int, output_tokens: int) -> Streamed:
        return await self._send(self.prompts.prompt(prompt_tokens), output_tokens)

    async def _words(self, words: int) -> int:
        found = await self._send(MadeUp(self.prompts.draw).prompt(words), 8)
        return found.prompt_tokens or 0

    async def _send(self, prompt: str, output_tokens: int) -> Streamed:
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
        if self._path == "/completions":
            asked = {"prompt": prompt}
        body = {**asked, "max_tokens": output_tokens, "temperature": 0, **self._exact}
        found = await self.client.stream(self._path, body)
        if found.prompt_tokens is None or found.output_tokens is None:
            raise BadInput(
                "--base-url",
                f"{self.client.root} does not report token counts of streamed answers",
                "let it honour stream_options.include_usage",
            )
        return found


async def measure(asker: Asker, point: Point) -> Seen | AtMost | str:
    """One measurement; or why it says nothing."""
    clock = asker.client.clock
    began_s, worked_s = clock(), time.process_time()
    found = await asyncio.gather(
        *(asker.ask(point.prompt_tokens, point.output_tokens) for _ in range(point.sequences))
    )
    busy = (time.process_time() - worked_s) / max(clock() - began_s, 1e-9)
    prompt = float(np.mean([one.prompt_tokens for one in found]))
    if not point.decodes:
        return Seen(point, prompt, prompt, float(np.median([one.ttft_s for one in found])))
    if busy > SATURATED:
        return f"this program was busy {busy:.0%} of the time"
    return _decoding(point, prompt, found)


async def rounds(
    points: Sequence[Point],
    one: Callable[[Point], Awaitable[Seen | AtMost | str]],
    first: tuple[Point, float],
    until_s: float,
    clock: Callable[[], float],
    progress: Callable[[Point], None],
) -> Rounds:
    """Measures the points in turn, again and again, until the clock shows `until_s`; and what was left out.

    `first` is a request and its seconds, from which the first guesses are made. A point is not begun that, by
    what was seen, would end too late or take more than its share of the time. Where the engine does not work on
    so many sequences at once, more are not tried.
    """
    seen: dict[Point, list[Seen]] = {}
    skipped: dict[Point, str] = {}
    at_most: int | None = None
    took_s = dict([first])
    most_s = LARGEST_SHARE * (until_s - clock())
    fresh = True
    while fresh:
        fresh = False
        for point in points:
            began_s, guess_s = clock(), _guess_s(point, took_s)
            if point in skipped or began_s + guess_s > until_s:
                continue
            if guess_s > most_s:
                skipped[point] = "would take too much of the time"
                continue
            progress(point)
            found = await one(point)
            took_s[point] = clock() - began_s
            if isinstance(found, AtMost):
                at_most = found.sequences
                why = f"the engine works on {at_most} at once"
                skipped.update((p, why) for p in points if p.sequences > at_most)
            elif isinstance(found, str):
                skipped.update((p, found) for p in points if p.decodes and p.sequences >= point.sequences)
                skipped[point] = found
            else:
                seen.setdefault(point, []).append(found)
                fresh = True
    left_out = {p: skipped.get(p, "no time left") for p in points if p not in seen}
    return Rounds(seen, left_out, at_most)


def _decoding(point: Point, prompt: float, found: Sequence[Streamed]) -> Seen | AtMost | str:
    """Between the last first token and the first last token, all sequences decode and nothing else happens."""
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
    context = point.sequences * prompt + float(written.sum(axis=0).mean())
    pieces_s = np.diff(edges_s)[steps > 0] / steps[steps > 0]
    return Seen(point, prompt, context, float(np.median(pieces_s)))


def _guess_s(point: Point, took_s: dict[Point, float]) -> float:
    """As long as it took before; else what the longest prompt took, a token, and the widest batch, a sequence."""
    if point in took_s:
        return took_s[point]
    longest = max(took_s, key=lambda p: p.prompt_tokens * p.sequences)
    reading_s = took_s[longest] / (longest.sequences * longest.prompt_tokens)
    widest = max(took_s, key=lambda p: p.sequences * p.output_tokens)
    writing_s = took_s[widest] * max(1.0, point.sequences / widest.sequences) if point.decodes else 0.0
    return point.sequences * point.prompt_tokens * reading_s + writing_s
