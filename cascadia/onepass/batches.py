"""Passes for many callers from one process: what waits for the same model when the thread is free goes together.

A caller's list is never split, and models take turns by who waits longest.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cascadia.clients.processes.one_thread import Busy, OneThread
from cascadia.onepass.runner import Forwarded, Runner

__all__ = ["Batches", "Busy"]


class _List(NamedTuple):
    runner: Runner
    ids: Sequence[Sequence[int]]
    declines: bool


class Batches:
    """`most_waiting` inputs may wait; lists of one model are joined up to `at_once` inputs. `seen` is told each batch's
    model, size and seconds."""

    def __init__(
        self,
        most_waiting: int = 4096,
        at_once: int = 32,
        seen: Callable[[str, int, float], object] = lambda *_: None,
    ) -> None:
        self._thread: OneThread[_List, Forwarded] = OneThread(
            "pass",
            _forward,
            lambda one: one.runner,
            lambda some, seconds: seen(some[0].runner.model.name, sum(len(one.ids) for one in some), seconds),
            at_once=at_once,
            most_waiting=most_waiting,
        )
        self.start, self.stop = self._thread.start, self._thread.stop

    @property
    def waiting(self) -> int:
        return self._thread.waiting

    async def forward(
        self, runner: Runner, ids: Sequence[Sequence[int]], *, declines: bool = False
    ) -> Forwarded:
        """One pass of `runner` over `ids`, alone or with others'; one that declines has no exits. Raises `Busy`."""
        return (await self._thread.found([_List(runner, ids, declines)], [len(ids)]))[0]


def _forward(some: list[_List]) -> list[Forwarded]:
    ids = [each for one in some for each in one.ids]
    found = some[0].runner.forward(ids, [one.declines for one in some for _ in one.ids])
    ends = np.cumsum([len(one.ids) for one in some])[:-1]
    # None where the model has no ramps.
    parts = [[None] * len(some) if part is None else np.split(part, ends) for part in found]
    return [Forwarded(*each) for each in zip(*parts, strict=True)]
