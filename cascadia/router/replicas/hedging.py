"""Hedging: a second replica is asked the same where the first is slower than nearly all were, and within a
budget.

Dean and Barroso, The Tail at Scale (2013): a second request after the 95th percentile of the expected time costs about
5 % more work and shortens the tail. Whichever answers first is taken, and the other is cancelled. Off by default: it
helps where slowness is a replica's own (a noisy neighbour, a pause), not where the answer is merely long.
"""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cascadia.router.replicas.breaker import RetryBudget
from cascadia.router.settings.model import HedgeSettings

A = TypeVar("A")

REMEMBERED = 256
"""The latest times, of which the quantile is taken."""
FEWEST = 20
"""Before so many are known, nothing is hedged."""
SOONEST_S = 0.01
"""What is not there sooner may still be the network's unevenness, or the event loop's."""


class Quantile:
    """Quantile of the last `REMEMBERED` times in seconds."""

    __slots__ = ("_at", "_latest", "_sorted")

    def __init__(self, quantile: float) -> None:
        self._at = quantile
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def seen(self, seconds: float) -> None:
        self._latest.append(seconds)
        insort(self._sorted, seconds)
        if len(self._latest) > REMEMBERED:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]

    @property
    def value_s(self) -> float | None:
        """Seconds at the quantile; None while too few are known."""
        n = len(self._sorted)
        return self._sorted[min(n - 1, int(self._at * n))] if n >= FEWEST else None


class Hedge:
    """Hedging of one stage: `whole` answers and the beginnings of streams (`first`) have times of their own."""

    def __init__(self, settings: HedgeSettings) -> None:
        self.whole = Quantile(settings.quantile)
        self.first = Quantile(settings.quantile)
        self.budget = RetryBudget(settings.ratio, saved=1.0)


async def raced(
    first: Awaitable[A], after_s: float, second: Callable[[], Awaitable[A] | None], drop: Callable[[A], None]
) -> tuple[A, bool]:
    """The answer, and whether it is the second's, which is asked after `after_s` unless `second` has none to ask.

    The loser is cancelled, or given to `drop` where it came too late for that. Where both fail it raises what the first
    did.
    """
    lead = asyncio.ensure_future(first)
    other: asyncio.Future[A] | None = None
    winner: asyncio.Future[A] | None = None
    try:
        await asyncio.wait((lead,), timeout=after_s)
        asked = None if lead.done() else second()
        if asked is not None:
            other = asyncio.ensure_future(asked)
        waiting = {lead, other} if other else {lead}
        while waiting and winner is None:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            winner = next((one for one in (lead, other) if one in done and one.exception() is None), None)
        return (winner or lead).result(), winner is not None and winner is other
    finally:
        await _end([one for one in (lead, other) if one is not None and one is not winner], drop)


async def _end(losers: "list[asyncio.Future[A]]", drop: Callable[[A], None]) -> None:
    for loser in losers:
        loser.cancel()
    for ended in await asyncio.gather(*losers, return_exceptions=True):
        if not isinstance(ended, BaseException):
            drop(ended)
