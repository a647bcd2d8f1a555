"""Redis as the place where routers share their limits: one connection, scripts by their hash, all in one exchange."""

from collections.abc import Sequence
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
        answers: list[Any] = await within(self._timeout_s, self._run(calls))
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
            if any(isinstance(answer, NoScriptError) for answer in answers):
                # A Redis that was started anew knows no script, and has run none of these.
                answers = await self._exchange(calls, by_hash=False)
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
