"""Dollars that keys have spent this month (UTC), by stage, over all processes and routers that share a book.

Each process counts what it charged itself, and tells the book that sum, not a difference: what is lost is made good by
the next telling, and told twice it counts once. A key whose budget is spent is refused before anything is asked of an
engine. What a request costs is known at its end only, so those under way when the budget runs out are still answered,
and what other processes charged is known after `EVERY_S`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from cascadia.router.access.shared_limits import StoreFailed
from cascadia.router.telemetry.internal_errors import tell

EVERY_S = 1.0
QUIET_S = 5.0
"""Between two looks at what others have spent, where this process has nothing to tell."""
KEPT_MONTHS = 2
"""Beside the one that it is."""

Sums = dict[str, dict[str, float]]
"""Dollars by key's id and stage."""


class PartlyRead(OSError):
    """Part of a book that could not be read or written; `others` is what could be read. `written`: whether what was
    charged here is in it."""

    def __init__(self, what: str, others: Sums, *, written: bool) -> None:
        super().__init__(what)
        self.others = others
        self.written = written


class Book(Protocol):
    """Sums of all who share it. Raises `StoreFailed` or `OSError`."""

    async def exchange(self, month: str, mine: Mapping[str, Mapping[str, float]]) -> Sums:
        """Writes what this process has charged in `month`; returns what all others have, earlier runs among them."""

    async def close(self) -> None: ...


class Spending:
    """`failed` is told why the book could not be had. Without a `book` only this process's charges count."""

    def __init__(
        self, failed: Callable[[str], None] = lambda _: None, wall: Callable[[], float] = time.time
    ) -> None:
        self.book: Book | None = None
        self._failed = failed
        self._wall = wall
        self._mine: dict[str, Sums] = {}
        self._others: dict[str, Sums] = {}
        self._since_s = wall()
        self._month, self._ends_s = month_of(self._since_s)
        self._wanted: Callable[[], bool] = lambda: True
        self._changed: set[str] = set()
        self._worker: asyncio.Task[None] | None = None

    @property
    def month(self) -> str:
        """Month as 2026-11. A clock that jumps comes back to what was spent in the month that it left."""
        now_s = self._wall()
        if not self._since_s <= now_s < self._ends_s:
            self._since_s = now_s
            self._month, self._ends_s = month_of(now_s)
            for sums in (self._mine, self._others):
                for old in sorted(sums.keys() - {self._month})[:-KEPT_MONTHS]:
                    del sums[old]
        return self._month

    def charge(self, key: str, stage: str, usd: float) -> None:
        month = self.month
        own = self._mine.setdefault(month, {}).setdefault(key, {})
        own[stage] = own.get(stage, 0.0) + usd
        self._changed.add(month)

    def of(self, key: str) -> dict[str, float]:
        """Dollars of a key this month, by stage."""
        month = self.month
        found = dict(self._others.get(month, {}).get(key, {}))
        for stage, usd in self._mine.get(month, {}).get(key, {}).items():
            found[stage] = found.get(stage, 0.0) + usd
        return found

    def total_usd(self, key: str) -> float:
        return sum(self.of(key).values())

    async def start(self, book: Book, wanted: Callable[[], bool] = lambda: True) -> None:
        """Reads what was spent before, and goes on to share what is charged, while it is `wanted`."""
        self.book = book
        self._wanted = wanted
        await self.exchange()
        self._worker = asyncio.get_running_loop().create_task(self._shared())

    async def stop(self) -> None:
        """Tells the book what is left to tell."""
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker
        await self.exchange()
        if self.book is not None:
            await self.book.close()

    async def exchange(self) -> None:
        """Tells what was charged, of the month before too where that was still to tell; reads what others have."""
        if self.book is None or not self._wanted():
            return
        for month in sorted({*self._changed, self.month}):
            self._changed.discard(month)
            try:
                self._learn(month, await self.book.exchange(month, self._mine.get(month, {})))
            except PartlyRead as error:
                self._learn(month, error.others)
                if not error.written:
                    self._changed.add(month)
                self._failed("file")
            except (StoreFailed, OSError) as error:
                self._changed.add(month)
                self._failed(error.kind if isinstance(error, StoreFailed) else "file")

    def _learn(self, month: str, others: Sums) -> None:
        """Learns what others spent, never less: a book that says less has lost some, as an emptied Redis has."""
        known = self._others.setdefault(month, {})
        for key, stages in others.items():
            sums = known.setdefault(key, {})
            for stage, usd in stages.items():
                sums[stage] = max(usd, sums.get(stage, 0.0))

    async def _shared(self) -> None:
        quiet_s = 0.0
        while True:
            await asyncio.sleep(EVERY_S)
            quiet_s += EVERY_S
            if self._changed or quiet_s >= QUIET_S:
                quiet_s = 0.0
                try:
                    await self.exchange()
                except Exception as error:  # noqa: BLE001 (whatever a book does: budgets go on to be held)
                    tell("the book of spend failed", error)


def month_of(now_s: float) -> tuple[str, float]:
    """Month as 2026-11, and the Unix time of its end."""
    now = datetime.fromtimestamp(now_s, UTC)
    year, month = (now.year, now.month + 1) if now.month < 12 else (now.year + 1, 1)
    return f"{now.year}-{now.month:02d}", datetime(year, month, 1, tzinfo=UTC).timestamp()
