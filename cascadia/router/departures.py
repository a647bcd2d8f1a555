"""Watches for clients that leave, of those requests only that take a while.

A timer for each request would cost more than most of its way. So they are gathered, and looked at every `TICK_S`: what
was there a whole tick ago and still is, gets a watcher of its own. One timer for all, and none while nothing runs.
"""

import asyncio
from typing import Protocol

TICK_S = 0.015


class Watched(Protocol):
    @property
    def closed(self) -> bool: ...

    def watch_now(self) -> None: ...


class Departures:
    __slots__ = ("_new", "_old", "_timer")

    def __init__(self) -> None:
        self._new: list[Watched] = []
        self._old: list[Watched] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Watched) -> None:
        """`one` is watched within two ticks, unless it is closed before."""
        self._new.append(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        for one in self._old:
            if not one.closed:
                one.watch_now()
        self._old, self._new = self._new, []
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick) if self._old else None
