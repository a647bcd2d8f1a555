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
        self._fill(limits, now_s)
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

    def _fill(self, limits: KeyLimits, now_s: float) -> None:
        rpm, tpm = limits.requests_per_minute or 0, limits.tokens_per_minute or 0
        if self.at_s is None:
            self.requests, self.tokens = float(rpm), float(tpm)
        else:
            minutes = max(0.0, now_s - self.at_s) / MINUTE_S
            self.requests = min(float(rpm), self.requests + rpm * minutes)
            self.tokens = min(float(tpm), self.tokens + tpm * minutes)
        self.at_s = now_s


def told(limits: KeyLimits, verdict: Verdict) -> list[tuple[bytes, bytes]]:
    """OpenAI's `x-ratelimit-` headers. `reset` is when the bucket is full again."""
    headers: list[tuple[bytes, bytes]] = []
    for name, limit, left in (
        (b"requests", limits.requests_per_minute, verdict.requests),
        (b"tokens", limits.tokens_per_minute, verdict.tokens),
    ):
        if limit is not None:
            headers += (
                (b"x-ratelimit-limit-" + name, b"%d" % limit),
                (b"x-ratelimit-remaining-" + name, b"%d" % max(0, int(left))),
                (b"x-ratelimit-reset-" + name, b"%dms" % math.ceil((limit - left) * 60_000 / limit)),
            )
    return headers
