"""Requests under way in all processes that serve one cascade: our own as they are, the others' as they told last.

The processes of one router tell one another at their sockets, routers on several hosts through the Redis in which keys'
limits are shared. Nothing is sent for a request: each process tells its number four times a second.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.request_log import Journal

if TYPE_CHECKING:
    from cascadia.router.live.redis_channel import RedisChannel

TELL_S = 0.25
SILENT_S = 2.0
"""A process that was not heard for so long is taken to have as many requests under way as this one."""
FORGET_S = 60.0
"""A process on another host that was not heard for so long is taken to be gone."""
GONE = -1


class Peers(Protocol):
    """The other processes of this router, the one of this `number` in `folder`; each has `answers` by name."""

    @property
    def folder(self) -> Path: ...

    @property
    def number(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def answers(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]: ...

    async def ask(self, what: str, body: bytes = b"") -> dict[int, bytes]: ...


class Loaded(Protocol):
    """A router's process. `metrics.running` is what it has under way."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def events(self) -> Journal: ...

    @property
    def peers(self) -> Peers: ...


class _Heard(NamedTuple):
    running: int
    at_s: float


class FleetLoad:
    """`total` is what is under way in all processes: `others` by those that tell theirs, and as many as here in each
    further one of `alike`, which counts this process and those that are silent."""

    def __init__(self, router: Loaded, clock: Callable[[], float] = monotonic) -> None:
        self._router = router
        self._clock = clock
        peers = router.peers
        self._host = f"{socket.gethostname()}/{peers.folder.name if peers.count > 1 else os.getpid()}"
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._telling: asyncio.Task[None] | None = None
        self._channel: RedisChannel | None = None
        self.others = 0
        self.alike = peers.count
        peers.answers["in flight"] = self._told

    @property
    def host(self) -> str:
        """This router's name among those that share a Redis; its processes have the same."""
        return self._host

    @property
    def total(self) -> int:
        return self._router.metrics.running * self.alike + self.others

    def start(self) -> None:
        keys = self._router.settings.keys
        if keys is not None and keys.redis_url is not None:
            from cascadia.router.live.redis_channel import RedisChannel

            topic = f"in-flight:{self._router.settings.cascade}"
            self._channel = RedisChannel(keys.redis_url, topic, self.hear, self._failed)
            self._channel.start()

    async def stop(self) -> None:
        channel, self._channel = self._channel, None
        if self._telling is not None:
            await asyncio.wait({self._telling})
        if channel is not None:
            await channel.tell(self._message(GONE))
            await channel.stop()

    def tell(self) -> None:
        """Tells the others our own number, unless the last time still lasts, and adds up theirs."""
        alone = self._router.peers.count == 1 and self._channel is None
        if not alone and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(self._message(self._router.metrics.running)))
        self.add_up()

    def add_up(self) -> None:
        now_s = self._clock()
        mine = self._host
        self._heard = {
            who: heard
            for who, heard in self._heard.items()
            if who[0] == mine or now_s - heard.at_s <= FORGET_S
        }
        speaking = [heard for heard in self._heard.values() if now_s - heard.at_s <= SILENT_S]
        known = sum(1 for host, _ in self._heard if host == mine)
        unknown = self._router.peers.count - 1 - known
        self.others = sum(heard.running for heard in speaking)
        self.alike = 1 + unknown + len(self._heard) - len(speaking)

    def hear(self, message: bytes) -> None:
        """Takes what a process told of itself: its host, its number there, and how much it has under way."""
        for who, running in _read(message):
            if who == (self._host, self._router.peers.number):
                continue
            if running == GONE:
                self._heard.pop(who, None)
            else:
                self._heard[who] = _Heard(running, self._clock())

    def _message(self, running: int) -> bytes:
        return f"{self._host} {self._router.peers.number} {running}".encode()

    async def _tell(self, message: bytes) -> None:
        for answer in (await self._router.peers.ask("in flight", message)).values():
            self.hear(answer)
        if self._channel is not None:
            await self._channel.tell(message)

    async def _told(self, message: bytes) -> bytes:
        self.hear(message)
        return self._message(self._router.metrics.running)

    def _failed(self, why: str) -> None:
        self._router.events.line({"event": "in-flight", "error": why})


def _read(message: bytes) -> Iterator[tuple[tuple[str, int], int]]:
    """Loads in a message; none where nobody like us wrote it."""
    try:
        host, number, running = message.decode().rsplit(" ", 2)
        yield (host, int(number)), int(running)
    except ValueError:
        return
