"""Lines of the log about what a router shares through Redis: one when that is lost, one when it is back.

What comes and goes all the time, as where a Redis is full, is told once a minute.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

QUIET_S = 60.0
"""From one line about a loss to the next."""


class Outage:
    """Outage of `of`, which routers share. It may be said to be `lost`, or `back`, any number of times."""

    def __init__(
        self, of: str, line: Callable[[dict[str, Any]], object], clock: Callable[[], float] = monotonic
    ) -> None:
        self._of = of
        self._line = line
        self._clock = clock
        self._since_s: float | None = None
        self._told_s = float("-inf")
        self._told = False

    def lost(self, why: str) -> None:
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        if not self._told and now_s - self._told_s >= QUIET_S:
            self._told_s, self._told = now_s, True
            self._line({"event": "redis", "of": self._of, "outcome": "lost", "error": why})

    def back(self) -> None:
        if self._since_s is None:
            return
        if self._told:
            away_s = round(self._clock() - self._since_s, 3)
            self._line({"event": "redis", "of": self._of, "outcome": "back", "away_s": away_s})
        self._since_s, self._told = None, False
