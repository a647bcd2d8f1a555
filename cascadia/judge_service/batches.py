"""Verdicts for many callers from one judge: what waits when the judge is free goes to it together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from cascadia.clients.processes.one_thread import Busy, OneThread
from cascadia_judge.embedding import Case, Verdict

__all__ = ["Batches", "Busy"]


class Judges(Protocol):
    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def digest(self) -> str:
        """Tells who gives the verdicts from what was trained otherwise."""
        ...

    @property
    def wants_certainty(self) -> bool: ...

    def head_for(self, case: Case) -> object:
        """Raises `BadVerdict` where it cannot judge the case."""
        ...

    def scores(self, cases: Sequence[Case]) -> list[Verdict]: ...


class Batches:
    """`most_waiting` cases may wait, `at_once` go to the judge together. `seen` is told each batch's size
    and seconds."""

    def __init__(
        self,
        judge: Judges,
        most_waiting: int = 1024,
        at_once: int = 16,
        seen: Callable[[int, float], object] = lambda *_: None,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self.judge = judge
        self._thread: OneThread[Case, Verdict] = OneThread(
            "judge",
            lambda cases, _: judge.scores(cases),
            lambda _: None,
            lambda some, seconds: seen(len(some), seconds),
            at_once=at_once,
            most_waiting=most_waiting,
            thread=thread,
        )
        self.start, self.stop = self._thread.start, self._thread.stop

    @property
    def waiting(self) -> int:
        return self._thread.waiting

    async def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Verdicts in the order of `cases`. Raises `Busy`, and `BadVerdict` where the judge has no head for one
        of them.
        """
        for case in cases:
            self.judge.head_for(case)
        return await self._thread.found(cases, [1] * len(cases))
