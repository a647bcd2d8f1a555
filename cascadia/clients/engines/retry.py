"""Asking again: how often, and how long to wait in between."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from cascadia.clients.engines.chat import Retryable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

SLOW_TRIES = 2
"""An engine that let two whole time-outs pass is not asked a third time."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Policy of retries: at most `tries` attempts of `timeout_s` each; waits that double from `first_s` to
    `longest_s`.

    What an engine asks for in Retry-After is waited for up to `asked_s`.
    """

    timeout_s: float = 300.0
    tries: int = 6
    first_s: float = 0.5
    longest_s: float = 30.0
    asked_s: float = 300.0

    def wait_s(self, failed: int, after_s: float | None, chance: float) -> float:
        """Seconds to wait before the next attempt, after `failed` >= 1 of them; `chance` 0-1 spreads those who
        wait together.
        """
        if after_s is not None:
            return min(after_s, self.asked_s)
        return float(min(self.longest_s, self.first_s * 2.0 ** (failed - 1)) * (0.5 + chance / 2))


async def persistently(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    sleep: Sleep = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> T:
    """The first answer of `attempt`. Raises its `Refused` at once and its last `Retryable` at last."""
    failed = slow = 0
    while True:
        try:
            async with asyncio.timeout(patience.timeout_s):
                return await attempt()
        except TimeoutError:
            slow += 1
            error = Retryable("time-out", f"no answer within {patience.timeout_s:g} s")
        except Retryable as failure:
            error = failure
        failed += 1
        if failed >= patience.tries or slow >= SLOW_TRIES:
            raise error
        await sleep(patience.wait_s(failed, error.after_s, chance()))
