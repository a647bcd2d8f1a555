"""The plans that were asked for: made one at a time, kept with what they told."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from cascadia.domain.errors import CascadiaError
from cascadia.whatif.asked import Asked
from cascadia.whatif.better import beats, meets
from cascadia.whatif.worker import NotPlanned, Say

MOST = 64
"""Plans that are kept; the oldest but the first gives way."""


class Planner(Protocol):
    async def plan(self, asked: Asked, folder: Path, say: Say) -> dict[str, Any]: ...


class AtWork(CascadiaError):
    """Another plan is being made."""


@dataclass
class Entry:
    """A plan, from when it is asked for. `told` is empty until it is ready."""

    number: int
    asked: Asked
    folder: Path
    begun_s: float
    state: Literal["planning", "ready", "failed", "stopped"] = "planning"
    step: str = "reading"
    ended_s: float | None = None
    error: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    def line(self, now_s: float, better: int | None = None) -> dict[str, Any]:
        """The entry without what it told; `better` is a plan within its bounds that beats it."""
        seconds = (self.ended_s or now_s) - self.begun_s
        return {
            "number": self.number,
            "asked": self.asked.document(),
            "state": self.state,
            "step": self.step,
            "seconds": round(seconds, 1),
            "error": self.error,
            "headline": self.told.get("headline", ""),
            "better": better,
        }


class Plans:
    """Plans are numbered from 1, which is the spec's own; `sliders` are told by it before it is made."""

    def __init__(self, planner: Planner, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.entries: dict[int, Entry] = {}
        self.sliders: list[dict[str, Any]] = []
        self.clock = clock
        self._planner = planner
        self._folder = folder
        self._task: asyncio.Task[None] | None = None
        self._last = 0

    @property
    def at_work(self) -> Entry | None:
        return next((entry for entry in self.entries.values() if entry.state == "planning"), None)

    def better(self, entry: Entry) -> int | None:
        """The number of a plan that is within `entry`'s bounds and beats it, and that none beats; None without."""
        found: Entry | None = None
        for other in self.entries.values() if entry.state == "ready" else ():
            best = found or entry
            if other.state == "ready" and meets(other.told, entry.told) and beats(other.told, best.told):
                found = other
        return None if found is None else found.number

    def ask(self, asked: Asked) -> Entry:
        """The plan for `asked`, under way or made before. Raises `AtWork`."""
        for entry in self.entries.values():
            if entry.asked == asked and entry.state in ("planning", "ready"):
                return entry
        if self.at_work is not None:
            raise AtWork(f"plan {self.at_work.number} is being made; wait for it, or stop it")
        self._last += 1
        entry = Entry(self._last, asked, self._folder / str(self._last), self.clock())
        self.entries[entry.number] = entry
        while len(self.entries) > MOST:
            del self.entries[next(n for n in self.entries if n != 1)]
        self._task = asyncio.create_task(self._make(entry))
        return entry

    async def stop(self) -> None:
        """Ends the plan that is being made, if one is."""
        task = self._task
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _make(self, entry: Entry) -> None:
        def say(line: dict[str, Any]) -> None:
            entry.step = line.get("step", entry.step)
            if entry.number == 1:
                self.sliders = line.get("sliders", self.sliders)

        try:
            entry.told = await self._planner.plan(entry.asked, entry.folder, say)
            entry.state = "ready"
        except NotPlanned as error:
            entry.state, entry.error = "failed", str(error)
        except asyncio.CancelledError:
            entry.state = "stopped"
            raise
        except Exception as error:
            entry.state, entry.error = "failed", f"planning broke off: {type(error).__name__}: {error}"
            raise
        finally:
            entry.ended_s = self.clock()
