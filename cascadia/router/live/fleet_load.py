"""Requests under way in all processes that serve one cascade: our own as they are, the others' as they told last.

The processes of one router tell one another at their sockets, routers on several hosts through the Redis in which keys'
limits are shared. Nothing is sent for a request: each process tells its number four times a second.

A process is known by its host, its place there and an id of its own: one that drains has its place in common with its
successor, and both have requests under way.
"""

import asyncio
import math
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.outages import Outage
from cascadia.router.telemetry.request_log import Journal

if TYPE_CHECKING:
    from cascadia.router.live.redis_channel import RedisChannel

TELL_S = 0.25
SILENT_S = 2.0
"""A process that was not heard for so long is taken to have as many requests under way as this one."""
FORGET_S = 60.0
"""A process on another host that was not heard for so long, by who could hear it, is taken to be gone."""
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

    async def ask(self, what: str, body: bytes = b"", *, successor: bool = False) -> dict[int, bytes]: ...


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


class _Who(NamedTuple):
    host: str
    number: int
    process: int

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.number


class _Heard(NamedTuple):
    running: int
    at_s: float


class FleetLoad:
    """`total` is what is under way in all processes: `others` by those that tell theirs, and as many as here in each
    further one of `alike`, which counts this process and places whose processes are silent."""

    def __init__(self, router: Loaded, clock: Callable[[], float] = monotonic) -> None:
        self._router = router
        self._clock = clock
        peers = router.peers
        # Not the process's id alone: in containers it is 1.
        self._process = secrets.randbits(48)
        self._host = f"{socket.gethostname()}/{peers.folder.name if peers.count > 1 else self._process}"
        self._heard: dict[_Who, _Heard] = {}
        self._deaf_s = -math.inf
        self._gone = False
        self._telling: asyncio.Task[None] | None = None
        self._channel: RedisChannel | None = None
        self._nonsense = Outage("in-flight", router.events.line)
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
            outage = Outage("in-flight", self._router.events.line)
            self._channel = RedisChannel(keys.redis_url, topic, self.hear, outage)
            self._channel.start()

    async def stop(self) -> None:
        channel, self._channel = self._channel, None
        if self._telling is not None:
            await asyncio.wait({self._telling})
        self._gone = True
        await self._router.peers.ask("in flight", self._message(), successor=True)
        if channel is not None:
            await channel.tell(self._message())
            await channel.stop()

    def tell(self) -> None:
        """Tells the others our own number, unless the last time still lasts, and adds up theirs."""
        alone = self._router.peers.count == 1 and self._channel is None
        if not alone and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(self._message()))
        self.add_up()

    def add_up(self) -> None:
        now_s, peers = self._clock(), self._router.peers
        if self._channel is not None and not self._channel.listening.is_set():
            self._deaf_s = now_s
        speaking = {who: heard for who, heard in self._heard.items() if now_s - heard.at_s <= SILENT_S}
        taken = {(self._host, peers.number), *(who.place for who in speaking)}
        # Who is silent and has a successor has ended.
        silent = {
            who: heard
            for who, heard in self._heard.items()
            if who not in speaking and who.place not in taken and self._stays(who, heard, now_s)
        }
        self._heard = speaking | silent
        places = {who.place for who in self._heard} - {(self._host, peers.number)}
        unknown = peers.count - 1 - sum(1 for host, _ in places if host == self._host)
        self.others = sum(heard.running for heard in speaking.values())
        self.alike = 1 + unknown + len({who.place for who in silent})

    def _stays(self, who: _Who, heard: _Heard, now_s: float) -> bool:
        """Tells whether a silent process counts: while Redis is lost nobody elsewhere could be heard."""
        return who.host == self._host or now_s - max(heard.at_s, self._deaf_s) <= FORGET_S

    def hear(self, message: bytes) -> None:
        """Takes what a process told of itself: its host, its number there, and how much it has under way."""
        told = _read(message)
        if told is None:
            self._nonsense.lost("unreadable")
            return
        self._nonsense.back()
        who, running = told
        if who == self._me:
            return
        if running == GONE:
            self._heard.pop(who, None)
        else:
            self._heard[who] = _Heard(running, self._clock())

    @property
    def _me(self) -> _Who:
        return _Who(self._host, self._router.peers.number, self._process)

    def _message(self) -> bytes:
        running = GONE if self._gone else self._router.metrics.running
        return " ".join(map(str, (*self._me, running))).encode()

    async def _tell(self, message: bytes) -> None:
        for answer in (await self._router.peers.ask("in flight", message, successor=True)).values():
            self.hear(answer)
        if self._channel is not None:
            await self._channel.tell(message)

    async def _told(self, message: bytes) -> bytes:
        self.hear(message)
        return self._message()


def _read(message: bytes) -> tuple[_Who, int] | None:
    """The load in a message, unless nobody like us wrote it. Versions before had no process's id in it."""
    try:
        host, number, *process, running = message.decode().split(" ")
        who, under_way = _Who(host, int(number), int(process[0]) if process else 0), int(running)
    except ValueError:
        return None
    return (who, under_way) if under_way >= GONE and len(process) <= 1 else None
