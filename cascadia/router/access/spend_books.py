"""Books of spend: files in a folder that the processes of a host share, or a hash in Redis that routers share."""

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia.files.atomic import atomic_write
from cascadia.router.access.shared_limits import Store
from cascadia.router.access.shared_script import SPEND
from cascadia.router.access.spend import Sums

KEPT_MS = 40 * 24 * 3600 * 1000
"""After the last word of it a month is forgotten in Redis."""
SEPARATOR = "|"


class FileBook:
    """A file a process in `folder`, which is held as long as the process lives: whoever comes next goes on with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: Path | None = None
        self._lock = -1
        self._before: tuple[str, Sums] = ("", {})

    async def exchange(self, month: str, mine: Mapping[str, Mapping[str, float]]) -> Sums:
        told = {key: dict(stages) for key, stages in mine.items()}
        return await asyncio.to_thread(self._exchange, month, told)

    async def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock, self._own = -1, None

    def _exchange(self, month: str, mine: Sums) -> Sums:
        if self._own is None:
            self._own = self._taken()
            self._before = month, read_sums(self._own, month)
        if self._before[0] != month:
            self._before = month, {}
        with atomic_write(self._own, 0o600) as part:
            part.write_text(json.dumps({"month": month, "usd": added(self._before[1], mine)}))
        others = added({}, self._before[1])
        for path in sorted(self._folder.glob("spend-*.json")):
            if path != self._own:
                others = added(others, read_sums(path, month))
        return others

    def _taken(self) -> Path:
        """The first file that no process holds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            lock = os.open(
                self._folder / f"spend-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                number += 1
                continue
            self._lock = lock
            return self._folder / f"spend-{number}.json"


class RedisBook:
    """Each process tells its sums under a name of its own; those of processes that are gone stay."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._me = secrets.token_hex(8)

    async def exchange(self, month: str, mine: Mapping[str, Mapping[str, float]]) -> Sums:
        arguments: list[str | int] = [self._me, KEPT_MS]
        for key, stages in mine.items():
            for stage, usd in stages.items():
                arguments += [key + SEPARATOR + stage, repr(usd)]
        (found,) = await self._store.run([(SPEND, f"cascadia:spend:{{{month}}}", arguments)])
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
    """Sums of a file; none where it is of another month, or is not there. Raises `OSError` for one that is no book."""
    try:
        document: Any = json.loads(path.read_text())
        if document["month"] != month:
            return {}
        return {key: {s: float(usd) for s, usd in stages.items()} for key, stages in document["usd"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OSError(f"{path} is no book of spend: {error}") from None


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
