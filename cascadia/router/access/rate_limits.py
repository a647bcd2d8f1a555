"""Rate limits of a key: two buckets, filled evenly, and a count of requests under way.

A bucket holds a minute's worth. So a full minute's worth may come at once, and over any t minutes at most (1 + t) times
the limit passes. Tokens are taken by an estimate when a request comes, and put right when its engines have counted; the
bucket may then be below zero, and who overdrew it waits until it is filled again.
"""

import math
from dataclasses import dataclass
from math import ceil
from typing import Literal

from msgspec import Struct

from cascadia.router.access.keys import KeyLimits

Kind = Literal["requests", "tokens", "concurrent"]
MINUTE_S = 60.0
MINUTE_MS = 60_000.0
CONCURRENT_RETRY_S = 1.0
"""Nobody knows when a request under way will end."""


class Verdict(Struct, frozen=True, gc=False):
    """`refused` names the limit, or is None. `requests` and `tokens` are left; `wait_s` until it could be granted.

    `wait_s` is infinite where the request is larger than its limit.
    """

    refused: Kind | None
    requests: float
    tokens: float
    wait_s: float


@dataclass(slots=True)
class Usage:
    """Usage of one key. Levels in requests and tokens, as of `at_s`; before the first request both have filled
    for ever.
    """

    running: int = 0
    requests: float = 0.0
    tokens: float = 0.0
    at_s: float = -math.inf

    def take(self, limits: KeyLimits, tokens: int, now_s: float) -> Verdict:
        """Takes a request of `tokens` tokens, or nothing where a limit refuses it.

        Every request comes through here: `min` and `max` would take longer than all else.
        """
        rpm, tpm = limits.requests_per_minute, limits.tokens_per_minute
        minutes = (now_s - self.at_s) / MINUTE_S
        # Also where the clock went back: else nothing would be filled until it had caught up.
        self.at_s = now_s
        if rpm is not None and minutes > 0.0:
            level = self.requests + rpm * minutes
            self.requests = level if level < rpm else float(rpm)
        if tpm is not None and minutes > 0.0:
            level = self.tokens + tpm * minutes
            self.tokens = level if level < tpm else float(tpm)
        requests, left = self.requests, self.tokens
        if limits.concurrent is not None and self.running >= limits.concurrent:
            return Verdict("concurrent", requests, left, CONCURRENT_RETRY_S)
        if rpm is not None and requests < 1.0:
            return Verdict("requests", requests, left, (1.0 - requests) * MINUTE_S / rpm)
        if tpm is not None and left < tokens:
            wait_s = math.inf if tokens > tpm else (tokens - left) * MINUTE_S / tpm
            return Verdict("tokens", requests, left, wait_s)
        if rpm is not None:
            self.requests = requests = requests - 1.0
        if tpm is not None:
            self.tokens = left = left - tokens
        self.running += 1
        return Verdict(None, requests, left, 0.0)

    def settle(self, taken: int, used: int) -> None:
        """The request that was given `taken` tokens has ended and used `used`."""
        self.running -= 1
        self.tokens += taken - used


class RateLimitHeaders:
    """OpenAI's `x-ratelimit-` headers of a key; what does not change is written once. `reset`: when all is back."""

    __slots__ = ("_lines", "_request_ms", "_requests", "_token_ms", "_tokens")

    def __init__(self, limits: KeyLimits) -> None:
        self._requests = limits.requests_per_minute
        self._tokens = limits.tokens_per_minute
        self._request_ms = MINUTE_MS / (self._requests or math.inf)
        self._token_ms = MINUTE_MS / (self._tokens or math.inf)
        self._lines = _lines(b"requests", self._requests) + _lines(b"tokens", self._tokens)

    def lines(self, verdict: Verdict) -> bytes:
        """Whole lines of an answer's head."""
        rpm, tpm = self._requests, self._tokens
        requests, tokens = verdict.requests, verdict.tokens
        if rpm is not None and tpm is not None:
            return self._lines % (
                requests if requests > 0.0 else 0,
                ceil((rpm - requests) * self._request_ms),
                tokens if tokens > 0.0 else 0,
                ceil((tpm - tokens) * self._token_ms),
            )
        if rpm is not None:
            return self._lines % (
                requests if requests > 0.0 else 0,
                ceil((rpm - requests) * self._request_ms),
            )
        if tpm is not None:
            return self._lines % (tokens if tokens > 0.0 else 0, ceil((tpm - tokens) * self._token_ms))
        return self._lines


def _lines(of: bytes, limit: int | None) -> bytes:
    """Header lines with places for what is left, and for the milliseconds until all is back."""
    if limit is None:
        return b""
    return b"".join(
        (
            b"x-ratelimit-limit-%b: %d\r\n" % (of, limit),
            b"x-ratelimit-remaining-%b: %%d\r\n" % of,
            b"x-ratelimit-reset-%b: %%dms\r\n" % of,
        )
    )
