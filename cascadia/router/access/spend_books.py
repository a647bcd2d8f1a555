"""Books of spend: files in a folder that the processes of a host share, or a hash in Redis that routers share."""

import asyncio
import fcntl
import json
import os
import re
import secrets
import threading
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from cascadia.files.atomic import atomic_write
from cascadia.router.access.shared_limits import Store, StoreFailed
from cascadia.router.access.shared_script import SPEND
from cascadia.router.access.spend import KEPT_MONTHS, PartlyRead, Sums
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.outages import Outage

KEPT_MS = 40 * 24 * 3600 * 1000
"""After the last word of it a month is forgotten in Redis."""
SEPARATOR = "|"
UNREADABLE = ".unreadable"
_MONTH = re.compile(r"\d{4}-\d\d")

Months = dict[str, Sums]
"""Sums by month."""


class NoBook(OSError):
    """A file with something else in it."""


class FileBook:
    """A file a process in `folder`, which is held as long as the process lives: whoever comes next goes on with it.

    One that cannot be read is put aside, and never written over: somebody may still learn from it what was spent.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: Path | None = None
        self._lock = -1
        self._before: Months = {}
        self._told: Months = {}
        self._put_aside = False
        # A telling that was given up goes on in its thread: the next one comes after it.
        self._turn = threading.Lock()

    async def exchange(self, month: str, mine: Mapping[str, Mapping[str, float]]) -> Sums:
        told = {key: dict(stages) for key, stages in mine.items()}
        return await asyncio.to_thread(self._exchange, month, told)

    async def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock, self._own = -1, None

    def _exchange(self, month: str, mine: Sums) -> Sums:
        with self._turn:
            self._told[month] = mine
            failed = self._written(month)
            others, unread = self._of_others(month)
            if failed is not None or unread:
                raise PartlyRead(str(failed or unread), others, written=failed is None)
            return others

    def _written(self, month: str) -> OSError | None:
        """Why what was charged here could not be written. A disk that is full or read-only can be read all the same,
        and says which budgets are spent."""
        try:
            own = self._own or self._taken()
            sums = {name: added(self._before.get(name, {}), self._told.get(name, {}))
                    for name in self._before.keys() | self._told.keys()}  # fmt: skip
            _write(own, sums, month)
        except OSError as error:
            return error
        return None

    def _of_others(self, month: str) -> tuple[Sums, str]:
        """Sums of all but this process, and what could not be read of them."""
        others, torn = added({}, self._before.get(month, {})), []
        for path in sorted(self._folder.glob("spend-*.json")):
            try:
                others = others if path == self._own else added(others, read_sums(path, month))
            except OSError:
                torn.append(path.name)
        if not self._put_aside and not torn:
            return others, ""
        self._put_aside = False
        return others, f"{', '.join(torn) or 'what was put aside'} is no book of spend"

    def _taken(self) -> Path:
        """The first file that no process holds, as this process's own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number, lock = 0, -1
        while (lock := self._held(number)) < 0:
            number += 1
        path = self._folder / f"spend-{number}.json"
        try:
            self._before = read_months(path)
        except NoBook as error:
            tell("the book of spend cannot be read, and is put aside", error)
            path.replace(_free(Path(f"{path}{UNREADABLE}")))
            self._put_aside, self._before = True, {}
        except OSError:
            os.close(lock)
            raise
        self._lock, self._own = lock, path
        return path

    def _held(self, number: int) -> int:
        """Descriptor of the lock of this number; -1 where another process has it."""
        # A file of its own: the book is replaced at each write, and a lock on it would go with it.
        path = self._folder / f"spend-{number}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return -1
        return lock


class RedisBook:
    """Each process tells its sums under a name of its own; those of processes that are gone stay."""

    def __init__(self, store: Store, outage: Outage) -> None:
        self._store = store
        self._outage = outage
        self._me = secrets.token_hex(8)

    async def exchange(self, month: str, mine: Mapping[str, Mapping[str, float]]) -> Sums:
        arguments: list[str | int] = [self._me, KEPT_MS]
        for key, stages in mine.items():
            for stage, usd in stages.items():
                # Sums and not additions: what is lost is made good by the next telling, and nothing counts
                # twice.
                arguments += [key + SEPARATOR + stage, repr(usd)]
        try:
            (found,) = await self._store.run([(SPEND, f"cascadia:spend:{{{month}}}", arguments)])
        except StoreFailed as error:
            self._outage.lost(error.kind)
            raise
        self._outage.back()
        others: Sums = {}
        for name, usd in zip(found[::2], found[1::2], strict=True):
            key, _, stage = _text(name).partition(SEPARATOR)
            others.setdefault(key, {})[stage] = float(usd)
        return others

    async def close(self) -> None:
        await self._store.close()


def added(sums: Sums, more: Mapping[str, Mapping[str, float]]) -> Sums:
    """Sums of both."""
    found = {key: dict(stages) for key, stages in sums.items()}
    for key, stages in more.items():
        own = found.setdefault(key, {})
        for stage, usd in stages.items():
            own[stage] = own.get(stage, 0.0) + usd
    return found


def read_sums(path: Path, month: str) -> Sums:
    """Sums of a file in `month`; none where it has none, or is not there. Raises `NoBook` for one that is no book."""
    return read_months(path).get(month, {})


def read_months(path: Path) -> Months:
    try:
        document: Any = json.loads(path.read_text())
        months = {document["month"]: document["usd"], **document.get("earlier", {})}
        # A month in another form would be nobody's, and its budgets begun anew without a word.
        if not all(_MONTH.fullmatch(month) for month in months):
            raise ValueError("months that are none")
        return {month: _sums(usd) for month, usd in months.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoBook(f"{path} is no book of spend: {error}") from None


def _sums(found: Any) -> Sums:
    """Raises `ValueError` for what nobody can have spent: a budget beside it would never end."""
    sums = {key: {s: float(usd) for s, usd in stages.items()} for key, stages in found.items()}
    if not all(isfinite(usd) and usd >= 0 for stages in sums.values() for usd in stages.values()):
        raise ValueError("dollars that are none")
    return sums


def _free(path: Path) -> Path:
    """`path`, or what is beside it where somebody put one aside before."""
    found, number = path, 1
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _write(path: Path, sums: Months, month: str) -> None:
    """The latest months of `sums`, and `month` whatever a clock said before. One is named apart, as versions before had
    no other."""
    latest, *earlier = sorted(
        sorted(sums, key=lambda each: (each == month, each))[-KEPT_MONTHS - 1 :], reverse=True
    )
    document = {"month": latest, "usd": sums[latest], "earlier": {month: sums[month] for month in earlier}}
    with atomic_write(path, 0o600) as part:
        part.write_text(json.dumps(document))


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
