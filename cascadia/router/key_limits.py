"""What a key may still use: two buckets, filled evenly, and a count of requests under way.

A bucket holds a minute's worth. So a full minute's worth may come at once, and over any t minutes at most (1 + t) times
the limit passes. Tokens are taken by an estimate when a request comes, and put right when its engines have counted; the
bucket may then be below zero, and who overdrew it waits until it is filled again.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cascadia.router.keys import KeyLimits

Kind = Literal["requests", "tokens", "concurrent"]
MINUTE_S = 60.0
CONCURRENT_RETRY_S = 1.0
"""Nobody knows when a request under way will end."""


class Verdict(NamedTuple):
    """`refused` names the limit, or is None. `requests` and `tokens` are left; `wait_s` until it could be granted.

    `wait_s` is infinite where the request is larger than its limit.
    """

    refused: Kind | None
    requests: float
    tokens: float
    wait_s: float


@dataclass(slots=True)
class Usage:
    """Of one key. Levels in requests and tokens, as of `at_s`; None before the first request: both full."""

    running: int = 0
    requests: float = 0.0
    tokens: float = 0.0
    at_s: float | None = None

    def take(self, limits: KeyLimits, tokens: int, now_s: float) -> Verdict:
        """Takes a request of `tokens` tokens, or nothing where a limit refuses it."""
        rpm, tpm = limits.requests_per_minute, limits.tokens_per_minute
        minutes = math.inf if self.at_s is None else max(0.0, now_s - self.at_s) / MINUTE_S
        self.at_s = now_s
        if rpm is not None:
            self.requests = min(float(rpm), self.requests + rpm * minutes)
        if tpm is not None:
            self.tokens = min(float(tpm), self.tokens + tpm * minutes)
        if limits.concurrent is not None and self.running >= limits.concurrent:
            return Verdict("concurrent", self.requests, self.tokens, CONCURRENT_RETRY_S)
        if rpm is not None and self.requests < 1.0:
            wait_s = (1.0 - self.requests) * MINUTE_S / rpm
            return Verdict("requests", self.requests, self.tokens, wait_s)
        if tpm is not None and self.tokens < tokens:
            wait_s = math.inf if tokens > tpm else (tokens - self.tokens) * MINUTE_S / tpm
            return Verdict("tokens", self.requests, self.tokens, wait_s)
        if rpm is not None:
            self.requests -= 1.0
        if tpm is not None:
            self.tokens -= tokens
        self.running += 1
        return Verdict(None, self.requests, self.tokens, 0.0)

    def settle(self, taken: int, used: int) -> None:
        """The request that was given `taken` tokens has ended and used `used`."""
        self.running -= 1
        self.tokens += taken - used


class Told:
    """OpenAI's `x-ratelimit-` headers of a key; what does not change is written once. `reset`: when all is back."""

    __slots__ = ("_lines", "_requests", "_tokens")

    def __init__(self, limits: KeyLimits) -> None:
        self._requests = limits.requests_per_minute
        self._tokens = limits.tokens_per_minute
        self._lines = _lines(b"requests", self._requests) + _lines(b"tokens", self._tokens)

    def lines(self, verdict: Verdict) -> bytes:
        """Whole lines of an answer's head."""
        figures: tuple[int, ...] = ()
        if self._requests is not None:
            figures = _figures(verdict.requests, self._requests)
        if self._tokens is not None:
            figures += _figures(verdict.tokens, self._tokens)
        return self._lines % figures


def _figures(left: float, limit: int) -> tuple[int, int]:
    return max(0, int(left)), -int((left - limit) * 60_000 // limit)


def _lines(of: bytes, limit: int | None) -> bytes:
    """With places for what is left, and for the milliseconds until all is back."""
    if limit is None:
        return b""
    return b"".join(
        (
            b"x-ratelimit-limit-%b: %d\r\n" % (of, limit),
            b"x-ratelimit-remaining-%b: %%d\r\n" % of,
            b"x-ratelimit-reset-%b: %%dms\r\n" % of,
        )
    )
