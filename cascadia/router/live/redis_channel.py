"""Channel to routers on other hosts, through the Redis in which keys' limits are shared.

What is told is published and not kept: who is not there does not hear it, and nobody does while Redis is gone.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import redis.asyncio
from redis.exceptions import RedisError

AGAIN_S = 1.0
"""Between two tries to listen."""
PATIENCE_S = 1.0
"""For Redis to take a message, and for the listener to end."""
SILENT_S = 5.0
"""After so long without a word Redis is asked for one; after as long again it is gone, though nobody said so: a machine
that is cut off, or one that stands still."""


class RedisChannel:
    """Channel of all routers that have the same `topic`. `heard` is called with each message, our own among
    them; `failed` with what is wrong, each time that listening ends.
    """

    def __init__(
        self,
        url: str,
        topic: str,
        heard: Callable[[bytes], None],
        failed: Callable[[str], None],
        silent_s: float = SILENT_S,
    ) -> None:
        self._silent_s = silent_s
        self._client = redis.asyncio.Redis.from_url(url, protocol=2, socket_keepalive=True, retry=None)
        self._name = f"cascadia:{topic}"
        self._heard = heard
        self._failed = failed
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
        """How many listen, all that were told among them; 0 where Redis is gone."""
        # Who listens says that Redis is gone.
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                return int(await self._client.publish(self._name, news))
        return 0

    async def _listen(self) -> None:
        while not self._stopped:
            try:
                async with self._client.pubsub() as channel:
                    async with asyncio.timeout(PATIENCE_S):
                        await channel.subscribe(self._name)
                    await self._hear(channel)
            except (RedisError, OSError, ValueError) as error:
                self._failed(type(error).__name__)
            self.listening.clear()
            await asyncio.sleep(AGAIN_S)

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
