"""Files read again while requests run: on SIGHUP, when one of them changes, or when the admin API asks.

Of several processes whichever learns of it first has the others do it too, before an operator's next command: one that
did it later would undo what was put meanwhile, and serve by another plan than the others.

All that is new is read, checked and built before anything changes. What cannot be read leaves all as it is, and says so
in one line of the log, in a metric, and in `/ready`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from cascadia.domain.errors import CascadiaError
from cascadia.router.access.access import Access
from cascadia.router.admin.broadcast import PATIENCE_S, TURN_S, Override, Why
from cascadia.router.live.last_good import InForce, LastGood, files_of, read, signature
from cascadia.router.live.reload_metrics import PlanMetrics
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.request_log import Journal

Outcome = Literal["swapped", "unchanged", "refused"]

AT_START = ("host", "port", "keys", "admin", "tracing", "samples", "shadow", "page")
"""What a process keeps as it found it."""


class Reloaded(NamedTuple):
    """`error`: what is wrong with the files. `at`: Unix time. `restart`: what takes effect at the next start only.
    `signals`: so many had come when the files were read.
    """

    outcome: Outcome
    error: str | None
    at: float
    restart: tuple[str, ...] = ()
    signals: int = 0

    @property
    def document(self) -> dict[str, Any]:
        """JSON for `/ready`, which anyone may read: whether, not what."""
        return {"outcome": self.outcome, "at": round(self.at, 3), "signals": self.signals}


class Forgetful(Protocol):
    """Whoever put something beside the files; `caught_up` with what was put before this process began."""

    overrides: list[Override]
    caught_up: asyncio.Event

    def forget(self) -> None: ...


class Peers(Protocol):
    """The other processes of this router, of which one at a time may do what all are to do."""

    async def tell(self, what: str, body: bytes, patience_s: float) -> None: ...

    def turn(self, patience_s: float) -> AbstractAsyncContextManager[None]: ...


class Reloadable(Protocol):
    """A router whose files may be read again. `digest` is of the plan in force, `names` of those before it too."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def digest(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def operator(self) -> Forgetful: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def plan_metrics(self) -> PlanMetrics: ...

    @property
    def events(self) -> Journal: ...

    def swap(self, settings: RouterSettings) -> None: ...


class Reloader:
    """`load` reads the settings anew, in a thread, and raises `CascadiaError` where they make no sense. `last_good` is
    told what is in force.
    """

    def __init__(
        self, router: Reloadable, load: Callable[[], RouterSettings], last_good: LastGood | None = None
    ) -> None:
        self._router = router
        self._load = load
        self._last_good = last_good
        self._signals = self._answered = 0
        self.loaded = router.settings
        self._known = last_good.get().known if last_good is not None else signature(self._files())
        self._lock = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._soon: asyncio.Task[None] | None = None
        self.last: Reloaded | None = None

    def start(self) -> None:
        if self._router.settings.watch_s > 0:
            self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        if self._soon is not None:
            self._soon.cancel()
            with suppress(asyncio.CancelledError):
                await self._soon

    def hang_up(self) -> None:
        """Reloads soon: for a signal's handler. What comes during a reload has the files read once more after it."""
        self._signals += 1
        if self._soon is None or self._soon.done():
            self._soon = asyncio.create_task(self._until_answered())

    @property
    def kept(self) -> tuple[Override, ...]:
        """Overrides as the last process that took one kept them."""
        return () if self._last_good is None else self._last_good.get().overrides

    def keep(self, overrides: Sequence[Override]) -> None:
        """Keeps them for processes that come later."""
        if self._last_good is not None:
            now = self._last_good.get()
            self._last_good.put(now._replace(overrides=tuple(overrides), names=self._router.names))

    async def _until_answered(self) -> None:
        while self._answered < self._signals:
            await self._everywhere("signal")

    async def _everywhere(self, why: Why) -> None:
        """Reloads here and in all other processes, unless they had this one do it while it waited for its turn."""
        await self._router.operator.caught_up.wait()
        async with AsyncExitStack() as held:
            # A command that goes on and on keeps nobody from the files.
            with suppress(TimeoutError):
                await held.enter_async_context(self._router.peers.turn(TURN_S))
            if why == "signal" and self._answered == self._signals:
                return
            told = await self.reload(why)
            if why == "signal" or told.outcome == "swapped":
                await self._router.peers.tell("reload", why.encode("ascii"), PATIENCE_S)

    async def reload(self, why: Why) -> Reloaded:
        """One at a time. A file's change swaps only what differs from the files as they were; others set all anew."""
        async with self._lock:
            # A signal asks for more than a change does.
            signals = self._answered if why == "file" else self._signals
            try:
                found = await asyncio.to_thread(read, self._load)
                told = self._apply(found, again=why != "file")
            except CascadiaError as error:
                told = Reloaded("refused", str(error), time.time())
            except Exception as error:  # noqa: BLE001 (the boundary: whatever is wrong with the new, the old serves)
                tell("reload failed", error)
                told = Reloaded("refused", type(error).__name__, time.time())
            self._answered = signals
        told = self.last = told._replace(signals=signals)
        self._router.plan_metrics.reloads.labels(told.outcome).inc()
        line: dict[str, Any] = {"event": "reload", "why": why, "outcome": told.outcome}
        if told.error is not None:
            line["error"] = told.error
        if told.restart:
            line["needs_restart"] = told.restart
        self._router.events.line(line | {"plan": self._router.digest})
        return told

    def _apply(self, found: InForce, *, again: bool) -> Reloaded:
        router, now = self._router, self._router.settings
        settings, keyring, known, *_ = found
        restart = _needs_restart(settings, self.loaded)
        at_start = {name: getattr(now, name) for name in AT_START}
        settings = replace(settings, **at_start)
        changed = settings != replace(self.loaded, **at_start)
        if changed or (again and settings != now):
            router.swap(settings)
        if changed or again:
            # A gear that is pinned is no part of the settings.
            router.operator.forget()
        swapped = router.settings is settings
        self.loaded = settings
        if keyring is not None and router.access is not None and keyring != router.access.keyring:
            router.access.replace(keyring)
            swapped = True
        if self._last_good is not None:
            keyring = None if router.access is None else router.access.keyring
            overrides = tuple(router.operator.overrides)
            self._last_good.put(InForce(settings, keyring, known, overrides, router.names))
        return Reloaded("swapped" if swapped else "unchanged", None, time.time(), restart)

    def _files(self) -> tuple[Path, ...]:
        return files_of(self.loaded)

    async def _watch(self) -> None:
        """A change counts when it is there twice in a row: who writes a file is done by then, or it is read again."""
        seen = self._known
        while True:
            await asyncio.sleep(self._router.settings.watch_s or 1.0)
            found = signature(self._files())
            if found == seen != self._known:
                files = self._files()
                await self._everywhere("file")
                # As they were before they were read: what was written meanwhile is a change again.
                self._known = found if self._files() == files else signature(self._files())
            seen = found


def _needs_restart(settings: RouterSettings, before: RouterSettings) -> tuple[str, ...]:
    """Names of changed settings that are decided when the process starts."""
    names = [name for name in AT_START if getattr(settings, name) != getattr(before, name)]
    at_start = ("head_s", "body_s", "max_head_bytes", "max_connections", "drain_s")
    changed = [name for name in at_start if getattr(settings.limits, name) != getattr(before.limits, name)]
    return (*names, *(f"limits.{name}" for name in changed))
