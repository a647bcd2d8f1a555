"""Files read again while requests run: on SIGHUP, when one of them changes, or when the admin API asks.

All that is new is read, checked and built before anything changes. What cannot be read leaves all as it is, and says so
in one line of the log, in a metric, and in `/ready`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from cascadia.domain.errors import CascadiaError
from cascadia.router.access.access import Access
from cascadia.router.access.keys import Keyring
from cascadia.router.access.keys_file import read_keys
from cascadia.router.access.setup import check_budgets
from cascadia.router.live.reload_metrics import PlanMetrics
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.request_log import Journal

Why = Literal["signal", "file", "admin"]
Outcome = Literal["swapped", "unchanged", "refused"]
Signature = tuple[tuple[int, int, int] | None, ...]


AT_START = ("host", "port", "keys", "admin", "tracing", "samples", "shadow", "page")
"""What a process keeps as it found it."""


class Reloaded(NamedTuple):
    """`error`: what is wrong with the files. `at`: Unix time. `restart`: what takes effect at the next start only."""

    outcome: Outcome
    error: str | None
    at: float
    restart: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """JSON for `/ready`, which anyone may read: whether, not what."""
        return {"outcome": self.outcome, "at": round(self.at, 3)}


class Forgetful(Protocol):
    """Whoever put something beside the files."""

    def forget(self) -> None: ...


class Reloadable(Protocol):
    """A router whose files may be read again. `digest` is of the plan in force."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def digest(self) -> str: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def operator(self) -> Forgetful: ...

    @property
    def plan_metrics(self) -> PlanMetrics: ...

    @property
    def events(self) -> Journal: ...

    def swap(self, settings: RouterSettings) -> None: ...


class Reloader:
    """`load` reads the settings anew, in a thread, and raises `CascadiaError` where they make no sense."""

    def __init__(self, router: Reloadable, load: Callable[[], RouterSettings]) -> None:
        self._router = router
        self._load = load
        self.loaded = router.settings
        self._known = signature(self._files())
        self._lock = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._once: set[asyncio.Task[Reloaded]] = set()
        self.last: Reloaded | None = None

    def start(self) -> None:
        if self._router.settings.watch_s > 0:
            self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher

    def request(self, why: Why) -> None:
        """Reloads soon: for a signal's handler."""
        task = asyncio.create_task(self.reload(why))
        self._once.add(task)
        task.add_done_callback(self._once.discard)

    async def reload(self, why: Why) -> Reloaded:
        """One at a time. A file's change swaps only what differs from the files as they were; others set all anew."""
        async with self._lock:
            try:
                settings, keyring = await asyncio.to_thread(self._read)
                told = self._apply(settings, keyring, again=why != "file")
            except CascadiaError as error:
                told = Reloaded("refused", str(error), time.time())
            except Exception as error:  # noqa: BLE001 (the boundary: whatever is wrong with the new, the old serves)
                tell("reload failed", error)
                told = Reloaded("refused", type(error).__name__, time.time())
        self.last = told
        self._router.plan_metrics.reloads.labels(told.outcome).inc()
        line: dict[str, Any] = {"event": "reload", "why": why, "outcome": told.outcome}
        if told.error is not None:
            line["error"] = told.error
        if told.restart:
            line["needs_restart"] = told.restart
        self._router.events.line(line | {"plan": self._router.digest})
        return told

    def _read(self) -> tuple[RouterSettings, Keyring | None]:
        settings = self._load()
        keyring = read_keys(settings.keys.file) if settings.keys is not None else None
        check_budgets(settings, keyring)
        return settings, keyring

    def _apply(self, settings: RouterSettings, keyring: Keyring | None, *, again: bool) -> Reloaded:
        router, now = self._router, self._router.settings
        restart = _needs_restart(settings, self.loaded)
        at_start = {name: getattr(now, name) for name in AT_START}
        settings = replace(settings, **at_start)
        changed = settings != replace(self.loaded, **at_start)
        if changed or (again and settings != now):
            router.swap(settings)
            router.operator.forget()
        swapped = router.settings is settings
        self.loaded = settings
        if keyring is not None and router.access is not None and keyring != router.access.keyring:
            router.access.replace(keyring)
            swapped = True
        return Reloaded("swapped" if swapped else "unchanged", None, time.time(), restart)

    def _files(self) -> tuple[Path, ...]:
        keys = self._router.settings.keys
        return (*self.loaded.files, *((keys.file,) if keys is not None else ()))

    async def _watch(self) -> None:
        """A change counts when it is there twice in a row: who writes a file is done by then, or it is read again."""
        seen = self._known
        while True:
            await asyncio.sleep(self._router.settings.watch_s or 1.0)
            found = signature(self._files())
            if found == seen != self._known:
                files = self._files()
                await self.reload("file")
                # As they were before they were read: what was written meanwhile is a change again.
                self._known = found if self._files() == files else signature(self._files())
            seen = found


def signature(paths: Iterable[Path]) -> Signature:
    """Signature that changes when a file does: None where it is missing, as for a moment while it is replaced."""
    return tuple(_one(path) for path in paths)


def _one(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # The inode too: a file put in place by a rename may be as old and as long as the one before.
    return found.st_mtime_ns, found.st_ino, found.st_size


def _needs_restart(settings: RouterSettings, before: RouterSettings) -> tuple[str, ...]:
    """Names of changed settings that are decided when the process starts."""
    names = [name for name in AT_START if getattr(settings, name) != getattr(before, name)]
    at_start = ("head_s", "body_s", "max_head_bytes", "max_connections", "drain_s")
    changed = [name for name in at_start if getattr(settings.limits, name) != getattr(before.limits, name)]
    return (*names, *(f"limits.{name}" for name in changed))
