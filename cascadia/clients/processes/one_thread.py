"""A queue whose entries one thread computes: those that wait when it is free, and go together, go together.

One thread, so that a batch has the core to itself and its time can be told beforehand; health checks are answered
meanwhile. Nobody is kept waiting for a batch to fill. A caller that leaves takes its entries out of the queue.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

Entry = TypeVar("Entry")
Found = TypeVar("Found")


class Busy(Exception):
    """Too many inputs wait already."""


class _Waiting(NamedTuple, Generic[Entry, Found]):
    entry: Entry
    size: int
    found: "asyncio.Future[Found]"


class OneThread(Generic[Entry, Found]):
    """`compute` is given the first entry and, in the order of their coming, those of its `kind` while their sizes
    together are `at_once` at most; `seen` is told these and their seconds. Entries of `most_waiting` together may wait.
    `compute` may give what it found of an entry, by its place, before it ends: its caller waits for no other.
    `thread`: of a queue that shares it with others; whoever made it ends it.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[[list[Entry], Callable[[int, Found], object]], Sequence[Found]],
        kind: Callable[[Entry], object],
        seen: Callable[[list[Entry], float], object],
        *,
        at_once: int,
        most_waiting: int,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self.most_waiting = most_waiting
        self.waiting = 0
        self._at_once = at_once
        self._compute, self._kind, self._seen = compute, kind, seen
        self._queue: deque[_Waiting[Entry, Found]] = deque()
        self._some = asyncio.Event()
        self._own = thread is None
        self._thread = thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._work = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        if self._own:
            self._thread.shutdown(wait=True)
        for one in self._queue:
            one.found.cancel()
        self._queue.clear()
        self.waiting = 0

    async def found(self, entries: Sequence[Entry], sizes: Sequence[int]) -> list[Found]:
        """Results, one of each of `entries`. Raises `Busy`."""
        if self.waiting + sum(sizes) > self.most_waiting:
            raise Busy
        loop = asyncio.get_running_loop()
        mine = [_Waiting(*one, loop.create_future()) for one in zip(entries, sizes, strict=True)]
        self._queue.extend(mine)
        self.waiting += sum(sizes)
        self._some.set()
        try:
            return [await one.found for one in mine]
        finally:
            for one in mine:
                one.found.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            some = self._next()
            if not some:
                self._some.clear()
                continue
            entries = [one.entry for one in some]
            started_s = loop.time()

            # Bound now: by the time that an answer is given, `some` may be the next batch.
            def give(at: int, found: Found, some: Sequence[_Waiting[Entry, Found]] = some) -> None:
                loop.call_soon_threadsafe(_answer, some[at].found, found)

            try:
                found = await loop.run_in_executor(self._thread, self._compute, entries, give)
            except Exception as error:  # noqa: BLE001 (whoever waits is told; the next batch may go better)
                for one in some:
                    if not one.found.done():
                        one.found.set_exception(error)
                continue
            self._seen(entries, loop.time() - started_s)
            for one, its in zip(some, found, strict=True):
                _answer(one.found, its)

    def _next(self) -> list[_Waiting[Entry, Found]]:
        some: list[_Waiting[Entry, Found]] = []
        others: deque[_Waiting[Entry, Found]] = deque()
        size = 0
        for one in self._queue:
            if one.found.done():
                self.waiting -= one.size
            elif not some or (
                size + one.size <= self._at_once and self._kind(one.entry) is self._kind(some[0].entry)
            ):
                some.append(one)
                size += one.size
                self.waiting -= one.size
            else:
                others.append(one)
        self._queue = others
        return some


def _answer(waiting: "asyncio.Future[Found]", found: Found) -> None:
    if not waiting.done():
        waiting.set_result(found)
