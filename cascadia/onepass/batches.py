"""Passes for many callers from one process: what waits for the same model when the thread is free goes together.

One thread computes, so that a batch has the core to itself and its time can be told beforehand; health checks are
answered meanwhile. A caller's list is never split, nobody is kept waiting for a batch to fill, and models take turns by
who waits longest. A caller that leaves takes its list out of the queue.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cascadia.onepass.runner import Forwarded, Runner


class Busy(Exception):
    """Too many inputs wait already."""


class _Waiting(NamedTuple):
    runner: Runner
    ids: Sequence[Sequence[int]]
    declines: bool
    found: "asyncio.Future[Forwarded]"


class Batches:
    """`most_waiting` inputs may wait; lists of one model are joined up to `at_once` inputs. `seen` is told each batch's
    model, size and seconds."""

    def __init__(
        self,
        most_waiting: int = 4096,
        at_once: int = 32,
        seen: Callable[[str, int, float], object] = lambda *_: None,
    ) -> None:
        self.most_waiting = most_waiting
        self.at_once = at_once
        self.waiting = 0
        self._seen = seen
        self._queue: deque[_Waiting] = deque()
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pass")
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._work = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        self._thread.shutdown(wait=True)
        for one in self._queue:
            one.found.cancel()
        self._queue.clear()
        self.waiting = 0

    async def forward(
        self, runner: Runner, ids: Sequence[Sequence[int]], *, declines: bool = False
    ) -> Forwarded:
        """One pass of `runner` over `ids`, alone or with others'; one that declines has no exits. Raises `Busy`."""
        if self.waiting + len(ids) > self.most_waiting:
            raise Busy
        mine = _Waiting(runner, ids, declines, asyncio.get_running_loop().create_future())
        self._queue.append(mine)
        self.waiting += len(ids)
        self._some.set()
        try:
            return await mine.found
        finally:
            mine.found.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            some = self._next()
            if not some:
                self._some.clear()
                continue
            runner, ids = some[0].runner, [each for one in some for each in one.ids]
            declines = [one.declines for one in some for _ in one.ids]
            started_s = loop.time()
            try:
                found = await loop.run_in_executor(self._thread, runner.forward, ids, declines)
            except Exception as error:  # noqa: BLE001 (whoever waits is told; the next batch may go better)
                for one in some:
                    if not one.found.done():
                        one.found.set_exception(error)
                continue
            self._seen(runner.model.name, len(ids), loop.time() - started_s)
            ends = np.cumsum([len(one.ids) for one in some])[:-1]
            # None where the model has no ramps.
            parts = [[None] * len(some) if part is None else np.split(part, ends) for part in found]
            for one, *mine in zip(some, *parts, strict=True):
                if not one.found.done():
                    one.found.set_result(Forwarded(*mine))

    def _next(self) -> list[_Waiting]:
        """The longest waiting list, and those of its model that fit beside it."""
        some: list[_Waiting] = []
        others: deque[_Waiting] = deque()
        size = 0
        while self._queue:
            one = self._queue.popleft()
            if one.found.done():
                self.waiting -= len(one.ids)
            elif not some or (one.runner is some[0].runner and size + len(one.ids) <= self.at_once):
                some.append(one)
                size += len(one.ids)
                self.waiting -= len(one.ids)
            else:
                others.append(one)
        self._queue = others
        return some
