"""The workload logs of several routers, fetched from each of them into one folder.

A file's name is its own among all routers, and its content never changes: what the folder has is not fetched again, so
whoever starts anew loses and doubles nothing. A router that goes takes along what it had not handed out.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import httpx

from cascadia.clients.cluster.evaluations_asked import asked_s
from cascadia.domain.errors import CascadiaError
from cascadia.files.atomic import atomic_write

_FILE = re.compile(r"[a-z]+-\d{8}T\d{6}Z-[\w-]+\.parquet")
"""KIND-TIME-PROCESS-NUMBER (`observers/samples_writer.py`)."""
TIMEOUT_S = 10.0
KEPT_S = 2 * 86_400.0


class SamplesMissing(CascadiaError):
    """A router that serves did not hand out what came to it: the rest would look like less traffic."""


class Source(NamedTuple):
    """A router, at `url`."""

    name: str
    url: str
    serves: bool


class RouterSamples:
    """Fetches samples into `folder`, which is made. `token`: what routers were told to give samples to.

    Where more shadow evaluations are asked for in the folder, each router is told so once.
    """

    def __init__(self, sources: Callable[[], Awaitable[list[Source]]], folder: Path, token: str) -> None:
        self._sources = sources
        self._folder = folder
        self._headers = {"authorization": f"Bearer {token}"}
        self._told: dict[str, float] = {}
        self._told_before = asked_s(folder)

    async def fetch(self) -> None:
        """Fetches what routers have by now, and passes on the wish for more shadow evaluations. Raises
        `SamplesMissing`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("*.parquet"):
            if _forgotten(path.name):
                path.unlink()
        sources = await self._sources()
        async with httpx.AsyncClient(headers=self._headers, timeout=TIMEOUT_S, trust_env=False) as client:
            said = await asyncio.gather(*(self._fetch(client, source) for source in sources))
        failed = [why for source, why in zip(sources, said, strict=True) if why and source.serves]
        if failed:
            raise SamplesMissing(f"no samples of {', '.join(failed)}")

    async def _fetch(self, client: httpx.AsyncClient, source: Source) -> str:
        """Fetches from a router until it has nothing new: more is written while much is fetched. What went
        wrong, if anything did.
        """
        base = f"{source.url}/samples"
        asked = asked_s(self._folder)
        try:
            if asked != self._told.get(source.name, self._told_before):
                (await client.post(f"{base}/looks")).raise_for_status()
                self._told[source.name] = asked
            while new := [name for name in await _names(client, base) if self._wanted(name)]:
                for name in new:
                    await self._take(client, base, name)
        except httpx.HTTPStatusError as error:
            return f"{source.name} (it answers {error.response.status_code})"
        except httpx.HTTPError as error:
            return f"{source.name} ({type(error).__name__})"
        except ValueError:
            return f"{source.name} (it answers no list of files)"
        return ""

    async def _take(self, client: httpx.AsyncClient, base: str, name: str) -> None:
        answer = await client.get(f"{base}/{name}")
        if answer.status_code == 404:  # it made room for another
            return
        answer.raise_for_status()
        with atomic_write(self._folder / name) as part:
            part.write_bytes(answer.content)

    def _wanted(self, name: str) -> bool:
        return not _forgotten(name) and not (self._folder / name).exists()


async def _names(client: httpx.AsyncClient, base: str) -> list[str]:
    """Raises `ValueError` for an answer that is none."""
    answer = await client.get(base)
    answer.raise_for_status()
    names = answer.json()
    if not isinstance(names, list) or not all(isinstance(n, str) and _FILE.fullmatch(n) for n in names):
        raise ValueError(base)
    return names


def _forgotten(name: str) -> bool:
    ended = datetime.strptime(name.split("-")[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return ended.timestamp() < time.time() - KEPT_S
