"""Redis as the place where routers share their limits: one connection, scripts by their hash, all in one exchange."""

from collections.abc import Sequence
from hashlib import sha1
from typing import Any

import redis.asyncio
from redis.exceptions import NoScriptError, RedisError, ResponseError

from cascadia.router.shared_limits import TIMEOUT_S, StoreFailed, within

_Calls = Sequence[tuple[str, str, Sequence[str | int]]]


class RedisStore:
    """`url` as of redis-py: `redis://`, `rediss://`, `unix://`, with user and password. Connects when it is needed."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
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
            answers = await self._exchange(calls)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                # A Redis that was started anew knows no script, and has run none of these.
                for script in {script for script, _, _ in calls}:
                    await self._client.script_load(script)
                answers = await self._exchange(calls)
        except ResponseError:
            raise StoreFailed("refused") from None
        except (RedisError, OSError):
            raise StoreFailed("connection") from None
        if any(isinstance(answer, RedisError) for answer in answers):
            raise StoreFailed("refused")
        return answers

    async def _exchange(self, calls: _Calls) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for script, key, arguments in calls:
            pipe.evalsha(_hash(script), 1, key, *arguments)
        answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers


_hashes: dict[str, str] = {}


def _hash(script: str) -> str:
    """As Redis names scripts; no secret hangs on it."""
    known = _hashes.get(script)
    if known is None:
        known = _hashes[script] = sha1(script.encode("ascii"), usedforsecurity=False).hexdigest()
    return known
