"""Redis as the place where routers share their limits: one connection, scripts by their hash, all in one exchange."""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha1
from typing import Any

import redis.asyncio
from redis.exceptions import NoScriptError, RedisError, ResponseError

from cascadia.router.access.shared_limits import TIMEOUT_S, StoreFailed, within
from cascadia.router.access.shared_script import SCRIPTS

_Calls = Sequence[tuple[str, str, Sequence[str | int]]]


class RedisStore:
    """`url` as of redis-py: `redis://`, `rediss://`, `unix://`, with user and password. Connects when it is needed."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._loaded = False
        # No tries again by the client itself: a script whose answer was lost has run, and would take its tokens
        # twice.
        self._client = redis.asyncio.Redis.from_url(
            url, socket_connect_timeout=timeout_s, socket_timeout=timeout_s, protocol=2, retry=None
        )

    async def run(self, calls: _Calls) -> list[Any]:
        try:
            answers: list[Any] = await within(self._timeout_s, self._run(calls))
        except StoreFailed:
            # It may lead to a Redis that no longer is the one to ask, as after a failover.
            with suppress(RedisError, OSError):
                await self._client.connection_pool.disconnect()
            raise
        return answers

    async def close(self) -> None:
        await self._client.aclose()

    async def _run(self, calls: _Calls) -> list[Any]:
        try:
            if not self._loaded:
                for script in SCRIPTS:
                    await self._client.script_load(script)
                self._loaded = True
            answers = await self._exchange(calls, by_hash=True)
            unknown = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if unknown:
                # A Redis that was started anew knows no script, or those only that it was shown since; it has run the
                # others, which would count twice.
                again = await self._exchange([calls[at] for at in unknown], by_hash=False)
                for at, answer in zip(unknown, again, strict=True):
                    answers[at] = answer
        except ResponseError:
            raise StoreFailed("refused") from None
        except (RedisError, OSError):
            raise StoreFailed("connection") from None
        except ValueError:
            # No number where one is to be: it is no Redis that answers there.
            raise StoreFailed("unreadable") from None
        if any(isinstance(answer, RedisError) for answer in answers):
            raise StoreFailed("refused")
        return answers

    async def _exchange(self, calls: _Calls, *, by_hash: bool) -> list[Any]:
        # Each script is atomic and on a key of its own: a transaction around them would hold up other
        # routers.
        pipe = self._client.pipeline(transaction=False)
        for script, key, arguments in calls:
            if by_hash:
                pipe.evalsha(_HASHES[script], 1, key, *arguments)
            else:
                pipe.eval(script, 1, key, *arguments)
        answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers


_HASHES = {script: sha1(script.encode("ascii"), usedforsecurity=False).hexdigest() for script in SCRIPTS}
"""As Redis names scripts; no secret hangs on it."""
