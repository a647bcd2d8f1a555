"""News of where conversations are, told to the other processes of this router and, through Redis where keys'
limits are shared in one, to routers on other hosts: whichever gets the next turn knows.

What happens within `GATHER_S` is told at once. Who is not reached starts that conversation afresh.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from cascadia.router.cascade.sessions import Conversations
from cascadia.router.openai.bounded import NOT_JSON
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.outages import Outage
from cascadia.router.telemetry.request_log import Journal

if TYPE_CHECKING:
    from cascadia.router.live.redis_channel import RedisChannel

GATHER_S = 0.01
_stages = msgspec.json.Decoder(dict[str, str])


class Peers(Protocol):
    """The other processes of this router: each has `answers` to what it is asked, by name."""

    @property
    def count(self) -> int: ...

    @property
    def answers(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]: ...

    async def ask(self, what: str, body: bytes = b"", *, successor: bool = False) -> dict[int, bytes]: ...


class Converses(Protocol):
    """A router, as far as its conversations go."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def events(self) -> Journal: ...

    @property
    def peers(self) -> Peers: ...


class ConversationNews:
    """Tells of all that `router` answers, and hears the others. `channel`: to other hosts, once it has started."""

    def __init__(self, router: Converses) -> None:
        self._router = router
        self._news: dict[str, str] = {}
        self._telling: set[asyncio.Future[object]] = set()
        self.channel: RedisChannel | None = None
        self._nonsense = Outage("conversations", router.events.line)
        router.peers.answers["conversations"] = self._told

    def start(self) -> None:
        keys = self._router.settings.keys
        if keys is not None and keys.redis_url is not None:
            from cascadia.router.live.redis_channel import RedisChannel

            topic = f"conversations:{self._router.settings.cascade}"
            outage = Outage("conversations", self._router.events.line)
            self.channel = RedisChannel(keys.redis_url, topic, self._heard, outage)
            self.channel.start()
            self.follow()

    async def stop(self) -> None:
        # What is gathered still stays untold: it would open a connection that nobody closes.
        channel, self.channel = self.channel, None
        if self._telling:
            await asyncio.wait(self._telling)
        if channel is not None:
            await channel.stop()

    def follow(self) -> None:
        """Follows the conversations of the plan in force from now on."""
        if self._router.peers.count > 1 or self.channel is not None:
            self._router.conversations.tell = self._tell

    def _tell(self, key: bytes, stage: str) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(GATHER_S, self._send)
        self._news[key.hex()] = stage

    def _send(self) -> None:
        news, self._news = msgspec.json.encode(self._news), {}
        self._soon(self._router.peers.ask("conversations", news, successor=True))
        if self.channel is not None:
            self._soon(self.channel.tell(news))

    def _soon(self, telling: Awaitable[object]) -> None:
        task = asyncio.ensure_future(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _told(self, news: bytes) -> bytes:
        self._heard(news)
        return b"heard"

    def _heard(self, news: bytes) -> None:
        now_s = asyncio.get_running_loop().time()
        try:
            for key, stage in _stages.decode(news).items():
                self._router.conversations.learn(bytes.fromhex(key), stage, now_s)
        except (*NOT_JSON, ValueError):
            self._nonsense.lost("unreadable")
        else:
            self._nonsense.back()
