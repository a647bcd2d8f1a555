"""Deadlines by when something must have come of an exchange: one timer a connection."""

import asyncio
from collections.abc import Callable

TICK_S = 0.002
"""uvloop's clock counts milliseconds: a timer may ring while its time is not quite reached."""


class Deadlines:
    """`rang` is called when a time may have come; it asks `due_s` whether it has. Times are the event loop's."""

    __slots__ = ("_rings_s", "_timer", "first_s", "held_s", "idle_s", "loop", "seen_s", "total_s")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0
        self.first_s = 0.0
        """When the head must be here, and the first part of a stream."""
        self.total_s = 0.0
        """When all must be here."""
        self.idle_s = 0.0
        """How far two parts of a stream may be apart; 0: it is none."""
        self.held_s = 0.0
        """As `idle_s`, of an answer that is held."""
        self.seen_s = 0.0
        """When a part came last."""

    def begin(self, first_byte_s: float, total_s: float, rang: Callable[[], None]) -> None:
        now_s = self.loop.time()
        self.total_s = now_s + total_s
        first_s = now_s + first_byte_s if first_byte_s < total_s else self.total_s
        self.first_s = first_s
        if self.idle_s or self.held_s:
            self.idle_s = self.held_s = 0.0
        if self._timer is None or first_s < self._rings_s:
            self.ring(first_s, rang)

    def hold(self, idle_s: float, rang: Callable[[], None], *, parts: bool) -> None:
        """An answer in `parts` may not fall silent for `idle_s`; another has as long in all."""
        now_s = self.loop.time()
        if parts:
            self.held_s = idle_s
            self.seen_s = now_s
        else:
            self.total_s = min(self.total_s, now_s + idle_s)
        self.ring(min(now_s + idle_s, self.total_s), rang)

    def stream(self, idle_s: float, rang: Callable[[], None]) -> None:
        """Lets no two parts be `idle_s` apart from here on."""
        self.idle_s = idle_s
        self.seen_s = self.loop.time()
        self.ring(min(self.seen_s + idle_s, self.total_s), rang)

    def ring(self, at_s: float, rang: Callable[[], None]) -> None:
        """Has `rang` called by then. It may be called early: a timer outlives its exchange, since most are never due,
        and setting and cancelling one for each costs more than to look again now and then."""
        if self._timer is None or at_s < self._rings_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at(at_s, rang)
            self._rings_s = at_s

    def rung(self) -> None:
        self._timer = None

    def due_s(self, now_s: float, *, headed: bool, begun: bool, waits: bool) -> float:
        """Instant by when something must have come; `begun`: a part of the body has; `waits`: somebody for one."""
        if not headed:
            return self.first_s
        idle_s = self.idle_s or self.held_s
        if not idle_s:
            return self.total_s
        # The idle limit of a stream holds while somebody waits for more: a slow client is not the engine's fault.
        since_s = now_s if self.idle_s and not waits else self.seen_s
        due_s = since_s + idle_s
        # vLLM and llama.cpp send the head of a stream at once, and its first part when its turn has come.
        return min(due_s if begun else max(due_s, self.first_s), self.total_s)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
