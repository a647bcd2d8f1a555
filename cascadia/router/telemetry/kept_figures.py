"""Figures of a router's processes, kept where each of them finds the others': a counter never goes back.

A process keeps what it is about to tell. Where it is too slow to be asked, or has died, it counts as it was last told:
whoever sums up processes without it would tell less than before, which Prometheus takes for a new beginning.
"""

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from cascadia.files.atomic import atomic_write
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.merge import counted

_FIGURES, _LOCK = ".figures", ".figures-lock"
_PAST = "past"


class Kept(NamedTuple):
    """Figures as they were last told. `stale`: processes among them that live, and were not heard now."""

    texts: list[bytes]
    stale: int


class KeptFigures:
    """Figures of this process, which `collect` has now, and of all that share `folder`; None: there are no others."""

    def __init__(self, folder: Path | None, collect: Callable[[], Awaitable[bytes]]) -> None:
        self._folder = folder
        self._collect = collect
        self.name = secrets.token_hex(8)
        self._lock = -1
        # What is kept is never older than what was told: one after the other.
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Takes the counts of those that have died together."""
        if self._folder is not None:
            try:
                await asyncio.to_thread(self._begin, self._folder)
            except OSError as error:
                tell("figures of processes that ended are not kept", error)

    async def stop(self) -> None:
        """Keeps the last of them."""
        if self._folder is not None:
            await self.now()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def now(self) -> bytes:
        """Figures of this process, which are kept before anybody is told them."""
        if self._folder is None:
            return await self._collect()
        async with self._turn:
            found = await self._collect()
            try:
                with atomic_write(self._folder / f"{self.name}{_FIGURES}", 0o600) as part:
                    part.write_bytes(found)
            except OSError as error:
                tell("figures are not kept for other processes", error)
        return found

    async def told(self, _: bytes = b"") -> bytes:
        """Name of this process and its figures, for another one."""
        return self.name.encode() + b"\n" + await self.now()

    def others(self, heard: set[str]) -> Kept:
        """Figures of all processes but those whose names were `heard`."""
        if self._folder is None:
            return Kept([], 0)
        texts, stale = {}, 0
        for path in sorted(self._folder.glob(f"*{_FIGURES}")):
            if path.stem not in heard:
                try:
                    texts[path.stem] = path.read_bytes()
                except FileNotFoundError:
                    continue
                stale += not _ended(path)
        # Read last: who is not found above any more is counted there.
        names, past = _past(self._folder)
        texts = {name: text for name, text in texts.items() if name not in names}
        return Kept([*texts.values(), *filter(None, [past])], stale)

    def _begin(self, folder: Path) -> None:
        self._lock = _held(folder / f"{self.name}{_LOCK}")
        together = os.open(folder / f"{_PAST}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(together, fcntl.LOCK_EX)
            names, past = _past(folder)
            ended = [path for path in folder.glob(f"*{_FIGURES}") if _ended(path)]
            new = [path for path in ended if path.stem not in names]
            if new:
                texts = [past, *(path.read_bytes() for path in new)]
                with atomic_write(folder / _PAST, 0o600) as part:
                    # Whose files could not be removed before are told again, and not counted again.
                    head = json.dumps([path.stem for path in ended]).encode()
                    part.write_bytes(head + b"\n" + counted(texts))
            for path in ended:
                path.unlink(missing_ok=True)
                path.with_suffix(_LOCK).unlink(missing_ok=True)
        finally:
            os.close(together)


def _past(folder: Path) -> tuple[set[str], bytes]:
    """Names and counts of processes that have ended and were taken together."""
    try:
        head, _, text = (folder / _PAST).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return set(), b""
    return set(json.loads(head)), text


def _held(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _ended(figures: Path) -> bool:
    """Whether their process has; it holds a lock as long as it lives."""
    try:
        lock = os.open(figures.with_suffix(_LOCK), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)
