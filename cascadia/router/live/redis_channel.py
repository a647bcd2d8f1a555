"""Channel to routers on other hosts, through the Redis in which keys' limits are shared.

What is told is published and not kept: who is not there does not hear it, and nobody does while Redis is gone.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import redis.asyncio
from redis.exceptions import RedisError

from cascadia.router.telemetry.internal_errors import tell as tell_of
from cascadia.router.telemetry.outages import Outage

AGAIN_S, LONGEST_S = 0.5, 8.0
"""Between two tries to listen, each time twice as long; less a random part, as many try to."""
MOST_TELLING = 8
"""Messages under way to a Redis that takes none; others are lost, as they would be were it gone."""
PATIENCE_S = 1.0
"""For Redis to take a message, and for the listener to end."""
SILENT_S = 5.0
"""After so long without a word Redis is asked for one; after as long again it is gone, though nobody said so: a machine
that is cut off, or one that stands still."""


class RedisChannel:
    """Channel of all routers that have the same `topic`. `heard` is called with each message, our own among
    them; `outage` is told when listening ends, and begins again.
    """

    def __init__(
        self,
        url: str,
        topic: str,
        heard: Callable[[bytes], None],
        outage: Outage,
        silent_s: float = SILENT_S,
    ) -> None:
        self._silent_s = silent_s
        self._client = redis.asyncio.Redis.from_url(url, protocol=2, socket_keepalive=True, retry=None)
        self._name = f"cascadia:{topic}"
        self._heard = heard
        self._outage = outage
        self._telling = 0
        self._listener: asyncio.Task[None] | None = None
        self._stopped = False
        self.listening = asyncio.Event()

    def start(self) -> None:
        self._listener = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        self._stopped = True
        if self._listener is not None:
            self._listener.cancel()
            # The client may take a cancellation for a broken connection: then the loop ends by the flag.
            await asyncio.wait({self._listener}, timeout=PATIENCE_S)
        await self._client.aclose()

    async def tell(self, news: bytes) -> int:
        """Tells all that listen, and says how many do; 0 where Redis is gone."""
        if self._telling >= MOST_TELLING:
            return 0
        self._telling += 1
        try:
            # Who listens says that Redis is gone.
            with suppress(RedisError, OSError, ValueError):
                async with asyncio.timeout(PATIENCE_S):
                    return int(await self._client.publish(self._name, news))
            return 0
        finally:
            self._telling -= 1

    async def _listen(self) -> None:
        clock, wait_s = asyncio.get_running_loop().time, AGAIN_S
        while not self._stopped:
            began_s = clock()
            try:
                async with self._client.pubsub() as channel:
                    async with asyncio.timeout(PATIENCE_S):
                        await channel.subscribe(self._name)
                    await self._hear(channel)
            except (RedisError, OSError, ValueError) as error:
                self._outage.lost(type(error).__name__)
            except Exception as error:  # noqa: BLE001 (whatever is said there: who ends here hears no more)
                tell_of("a channel to other routers failed", error)
                self._outage.lost(type(error).__name__)
            self.listening.clear()
            wait_s = AGAIN_S if clock() - began_s > LONGEST_S else min(LONGEST_S, 2 * wait_s)
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))

    async def _hear(self, channel: redis.asyncio.client.PubSub) -> None:
        """Hears until Redis is gone. Raises `TimeoutError` where it says nothing, asked or not."""
        asked = False
        while True:
            message = await channel.get_message(timeout=self._silent_s)
            if message is None:
                if asked:
                    raise TimeoutError
                asked = True
                async with asyncio.timeout(PATIENCE_S):
                    await channel.ping()
                continue
            asked = False
            if message["type"] == "message":
                self._heard(message["data"])
            else:
                self.listening.set()
                self._outage.back()
