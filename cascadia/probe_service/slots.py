"""The engine's slots: each request has one to itself until its answer is scored."""

import asyncio


class Busy(Exception):
    """Too many wait already."""


class Slots:
    """First come, first served; `most_waiting` may wait. The slot freed last is taken first: it holds the newest
    prompt."""

    def __init__(self, count: int, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._free: asyncio.LifoQueue[int] = asyncio.LifoQueue()
        self._waiting = 0
        for slot in reversed(range(count)):
            self._free.put_nowait(slot)

    async def take(self) -> int:
        """Raises `Busy`."""
        if self._free.empty() and self._waiting >= self.most_waiting:
            raise Busy
        self._waiting += 1
        try:
            return await self._free.get()
        finally:
            self._waiting -= 1

    def give(self, slot: int) -> None:
        self._free.put_nowait(slot)
