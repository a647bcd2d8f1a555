"""Routers of the same cascade elsewhere, as the page asks them for their shares: through the Redis in which keys'
limits are shared. Nothing is sent while nobody looks at a page.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from cascadia import __version__
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.outages import Outage
from cascadia.router.telemetry.request_log import Journal
from cascadia.router.ui.state import Page

if TYPE_CHECKING:
    from cascadia.router.live.redis_channel import RedisChannel

PATIENCE_S = 0.4
"""Who does not answer within this time is left out."""


class Load(Protocol):
    @property
    def host(self) -> str: ...


class Peers(Protocol):
    @property
    def count(self) -> int: ...


class Shared(Protocol):
    """A router's process; the processes of one router have the same `load.host`."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def events(self) -> Journal: ...

    @property
    def load(self) -> Load: ...

    @property
    def peers(self) -> Peers: ...


class OtherRouters:
    """Questions go to all processes at one topic, each answer to its asker's own.

    A question is `ASKER VERSION HOST BODY`, an answer `HOST PROCESS` and the share below. Who has another version
    does not answer: its shares may be others.
    """

    def __init__(self, router: Shared, page: Page | None) -> None:
        self._router = router
        self._page = page
        self._name = uuid4().hex
        self._all: RedisChannel | None = None
        self._mine: RedisChannel | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._heard: dict[bytes, bytes] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        if page is not None:
            page.elsewhere = self.ask

    def start(self) -> None:
        keys = self._router.settings.keys
        if self._page is None or keys is None or keys.redis_url is None:
            return
        self._all = self._channel(keys.redis_url, "page", self._asked)
        self._mine = self._channel(keys.redis_url, f"page:{self._name}", self._answered)
        self._all.start()
        self._mine.start()

    async def stop(self) -> None:
        channels, self._all, self._mine = (self._all, self._mine), None, None
        if self._answering:
            await asyncio.wait(self._answering)
        for channel in channels:
            if channel is not None:
                await channel.stop()

    async def ask(self, body: bytes) -> list[tuple[str, bytes]]:
        """Host and share of each process elsewhere that answers."""
        channel, mine = self._all, self._mine
        if channel is None or mine is None or not (channel.listening.is_set() and mine.listening.is_set()):
            return []
        async with self._turn:
            self._heard = {}
            asked = b" ".join((self._name.encode(), __version__.encode(), self._host, body))
            others = await channel.tell(asked) - self._router.peers.count
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while len(self._heard) < others:
                        self._changed.clear()
                        await self._changed.wait()
            return [(head.split()[0].decode(), share) for head, share in sorted(self._heard.items())]

    @property
    def _host(self) -> bytes:
        return self._router.load.host.encode()

    def _asked(self, message: bytes) -> None:
        parts = message.split(b" ", 3)
        if len(parts) == 4 and parts[1] == __version__.encode() and parts[2] != self._host:
            task = asyncio.create_task(self._answer(parts[0].decode("ascii", "replace"), parts[3]))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, asker: str, body: bytes) -> None:
        keys = self._router.settings.keys
        if self._page is None or keys is None or keys.redis_url is None:
            return
        share = await self._page.told(body)
        channel = self._channel(keys.redis_url, f"page:{asker}", self._answered)
        await channel.tell(b"%b %b\n%b" % (self._host, self._name.encode(), share))
        await channel.stop()

    def _answered(self, message: bytes) -> None:
        head, _, share = message.partition(b"\n")
        if len(head.split()) == 2:
            self._heard[head] = share
            self._changed.set()

    def _channel(self, url: str, topic: str, heard: Callable[[bytes], None]) -> "RedisChannel":
        from cascadia.router.live.redis_channel import RedisChannel

        outage = Outage(topic.partition(":")[0], self._router.events.line)
        return RedisChannel(url, f"{topic}:{self._router.settings.cascade}", heard, outage)
