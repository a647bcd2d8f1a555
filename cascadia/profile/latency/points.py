"""Points that a profile measures: single prompts of many lengths, and decoding at rising concurrency."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cascadia_sim.fit.profile_coverage import Observed, missing
from cascadia_sim.fit.profile_fit import Observation

T = TypeVar("T")
SHORT = 24
# Tokens that each sequence writes in a measurement of decoding: enough to see several iterations apart from the
# start and the end of the batch.
DECODED = 32
LONGEST = 4096
FEW = 8
"""Tokens of an answer that is as short as still says what a decoding step takes."""


@dataclass(frozen=True, slots=True)
class Point:
    """`sequences` prompts of `prompt_tokens` sent together, `output_tokens` each. One of 1 token measures prefill."""

    sequences: int
    prompt_tokens: int
    output_tokens: int

    @property
    def decodes(self) -> bool:
        return self.output_tokens > 1

    @property
    def expected(self) -> Observation:
        """Observation that a measurement at the point would be, but for its seconds."""
        context = self.sequences * (self.prompt_tokens + self.output_tokens / 2)
        return Observation(self.decodes, self.sequences, self.prompt_tokens, context, 1.0)

    @property
    def kv_tokens(self) -> int:
        return self.sequences * (self.prompt_tokens + self.output_tokens)


def ladder(max_model_len: int, max_sequences: int, kv_tokens: int | None) -> tuple[Point, ...]:
    """Points in the order of what they teach, so that a short time budget still covers the range thinly.

    Lengths and concurrencies are powers of two, and what fits the engine: its longest request, its sequences,
    its KV cache (where known; a preempted batch measures something else). Single prompts are measured half way
    between them too: a device that works in tiles of a power of two shows it only there.
    """
    longest = min(LONGEST, max_model_len - DECODED)
    lengths = [n for n in _powers(16, longest) if n + DECODED <= longest] or [longest // 2]
    widths = _powers(1, max_sequences)
    long = lengths[-1]
    between = [n * 3 // 2 for n in lengths if n * 3 // 2 <= long]
    prefill = [Point(1, n, 1) for n in sorted({1, *lengths, *between})]
    # Rising, so that the engine's own limit shows itself before anything wider is tried.
    decode = [Point(b, min(SHORT, long), DECODED) for b in widths]
    contexts = [Point(b, n, DECODED) for n in lengths[-4:] for b in (1, 4, 16) if b <= max_sequences]
    points = [*_spread(prefill), *decode, *contexts]
    # 0.9: blocks are not full at their ends, and words are only about as many tokens as meant.
    fits = [p for p in points if kv_tokens is None or p.kv_tokens <= 0.9 * kv_tokens]
    return tuple(dict.fromkeys(fits))


def needed(points: Sequence[Point], seen: Sequence[Observed], longest: int, most: int) -> list[Point]:
    """Cheapest of `points` for each part of an engine that `seen` tells nothing of; cheapest first.

    Their answers are short: where there is time, longer ones are measured later and count instead (`lasting`).
    `longest`: of the engine's requests, in tokens; `most`: that it works on at once.
    """
    points = [replace(p, output_tokens=min(p.output_tokens, FEW)) for p in points]
    wanted = []
    for part in missing(seen, longest=longest, most_sequences=most):
        shows = [p for p in points if part.shows(p.expected)]
        if shows:
            wanted.append(
                min(shows, key=lambda p: (p.sequences * p.prompt_tokens + p.kv_tokens, p.sequences))
            )
    if not any(one.prompt_tokens <= SHORT for one in seen if not one.decodes):
        wanted += [p for p in points if not p.decodes and p.prompt_tokens <= SHORT][:1]
    return sorted(wanted, key=lambda p: p.kv_tokens + p.sequences * p.output_tokens)


def lasting(seen: Mapping[Point, T], tells_all: Callable[[Sequence[Point]], bool]) -> dict[Point, T]:
    """Measurements without those of short answers, where the longer ones tell of as much."""
    whole = {p: found for p, found in seen.items() if not 1 < p.output_tokens < DECODED}
    return whole if tells_all(list(whole)) else dict(seen)


def _powers(least: int, most: int) -> list[int]:
    """Powers of two from `least` on, and `most` itself."""
    found = [least << k for k in range(24) if least << k < most]
    return [*found, most] if most >= least else found


def _spread(points: list[Point]) -> list[Point]:
    """The ends first, then what lies between them."""
    return [*points[:1], *points[-1:], *points[1:-1]]
