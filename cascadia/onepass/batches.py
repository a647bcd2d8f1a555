"""Passes for many callers from one process: what waits for the same model when the thread is free goes together.

A caller's list is never split, and models take turns by who waits longest. Where inputs leave a pass at exits, a list
is answered when its last input has left, and not when the pass ends.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cascadia.clients.processes.one_thread import Busy, OneThread
from cascadia.exits.readings import Ints
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
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self._thread: OneThread[_List, Forwarded] = OneThread(
            "pass",
            _forward,
            lambda one: one.runner,
            lambda some, seconds: seen(some[0].runner.model.name, sum(len(one.ids) for one in some), seconds),
            at_once=at_once,
            most_waiting=most_waiting,
            thread=thread,
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


def _forward(some: list[_List], give: Callable[[int, Forwarded], object]) -> list[Forwarded]:
    ids = [each for one in some for each in one.ids]
    ends = np.cumsum([len(one.ids) for one in some])
    early = _Early(ends, give)
    found = some[0].runner.forward(ids, [one.declines for one in some for _ in one.ids], early.released)
    return parts_of(found, ends)


def parts_of(found: Forwarded, ends: Ints) -> list[Forwarded]:
    """Each list's part; lists end behind the inputs numbered `ends`."""
    # None where the model has no ramps.
    parts = [[None] * len(ends) if part is None else np.split(part, ends[:-1]) for part in found]
    return [Forwarded(*each) for each in zip(*parts, strict=True)]


class _Early:
    """Lists of a pass that is under way: one is given as soon as its last input has left."""

    def __init__(self, ends: Ints, give: Callable[[int, Forwarded], object]) -> None:
        self._ends, self._give = ends, give
        self._missing = np.diff(ends, prepend=0)

    def released(self, rows: Ints, so_far: Forwarded) -> None:
        lists = np.searchsorted(self._ends, rows, side="right")
        # `subtract.at`: several inputs of one list leave at once, which `-=` would count as one.
        np.subtract.at(self._missing, lists, 1)
        for at in np.unique(lists[self._missing[lists] == 0]).tolist():
            part = parts_of(so_far, self._ends)[at]
            # A copy: the pass writes on.
            self._give(at, Forwarded(*(None if each is None else each.copy() for each in part)))  # type: ignore[arg-type]
