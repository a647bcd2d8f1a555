"""Verdicts for many callers from one judge: what waits when the judge is free goes to it together.

The judge computes on a thread of its own, so that health checks are answered meanwhile. Nobody is kept
waiting for a batch to fill. A caller that leaves takes its cases out of the queue.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from cascadia_judge.embedding import Case, EmbeddingJudge, Verdict


class Busy(Exception):
    """Too many cases wait already."""


class _Waiting(NamedTuple):
    case: Case
    verdict: "asyncio.Future[Verdict]"


class Batches:
    """`most_waiting` cases may wait, `at_once` go to the judge together. `seen` is told each batch's size
    and seconds."""

    def __init__(
        self,
        judge: EmbeddingJudge,
        most_waiting: int = 1024,
        at_once: int = 16,
        seen: Callable[[int, float], object] = lambda *_: None,
    ) -> None:
        self.judge = judge
        self.most_waiting = most_waiting
        self.at_once = at_once
        self._seen = seen
        self._queue: deque[_Waiting] = deque()
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")
        self._work: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def start(self) -> None:
        self._work = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        self._thread.shutdown(wait=True)
        for one in self._queue:
            one.verdict.cancel()
        self._queue.clear()

    async def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Verdicts in the order of `cases`. Raises `Busy`, and `BadVerdict` where the judge has no head for one
        of them.
        """
        for case in cases:
            self.judge.head_for(case)
        if len(self._queue) + len(cases) > self.most_waiting:
            raise Busy
        loop = asyncio.get_running_loop()
        mine = [_Waiting(case, loop.create_future()) for case in cases]
        self._queue.extend(mine)
        self._some.set()
        try:
            return [await one.verdict for one in mine]
        finally:
            for one in mine:
                one.verdict.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            some = self._next()
            if not some:
                self._some.clear()
                continue
            started_s = loop.time()
            try:
                found = await loop.run_in_executor(
                    self._thread, self.judge.scores, [one.case for one in some]
                )
            except Exception as error:  # noqa: BLE001 (whoever waits is told; the next batch may go better)
                for one in some:
                    if not one.verdict.done():
                        one.verdict.set_exception(error)
                continue
            for one, verdict in zip(some, found, strict=True):
                if not one.verdict.done():
                    one.verdict.set_result(verdict)
            self._seen(len(some), loop.time() - started_s)

    def _next(self) -> list[_Waiting]:
        some: list[_Waiting] = []
        while self._queue and len(some) < self.at_once:
            one = self._queue.popleft()
            if not one.verdict.done():
                some.append(one)
        return some
