"""Routers on several hosts share no memory: through Redis they know where a conversation goes on, all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from cascadia.router.access.keys import Keyring
from cascadia.router.settings.model import KeySettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import Running, ScriptedGate, run, running, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.cascade.test_conversations import sticky, turns
from tests.unit.router.redis_servers import fake_redis, nobody

KEY, HEADER = made()


@asynccontextmanager
async def hosts(count: int, url: str, *, listening: bool = True) -> AsyncIterator[list[Running]]:
    """Each a router of its own, before the same two engines; the first one's answers are never good enough."""
    small, large = FakeEngine("weak"), FakeEngine("strong")
    async with AsyncExitStack() as until_end:
        await until_end.enter_async_context(started(small, large))
        settings = replace(sticky(small, large), keys=KeySettings(Path("keys.json"), redis_url=url))
        ups = []
        for _ in range(count):
            router = running(settings, ScriptedGate({"weak": 10.0}), keyring=Keyring([KEY]))
            ups.append(await until_end.enter_async_context(router))
        for up in ups:
            assert up.router.news.channel is not None
            if listening:
                await asyncio.wait_for(up.router.news.channel.listening.wait(), 60)
        yield ups


async def tries(up: Running, *said: str) -> str:
    return str((await up.chat(messages=turns(*said), headers=HEADER)).headers["x-cascadia-attempts"])


def test_whichever_host_gets_the_next_turn_goes_on_where_the_last_one_answered() -> None:
    async def main(url: str) -> None:
        async with hosts(3, url) as ups:
            assert await tries(ups[0], "hard") == "2"
            await until(lambda: all(len(up.router.conversations) == 1 for up in ups))
            for up in ups:
                assert await tries(up, "hard", "strong", "and then?") == "1"
            assert await tries(ups[1], "other", "a", "b") == "2"

    with fake_redis() as url:
        run(lambda: main(url))


def test_what_passes_through_redis_is_a_hash_and_a_stages_name() -> None:
    async def main(url: str) -> None:
        async with hosts(1, url) as (up,):
            client = redis.Redis.from_url(url, protocol=2)
            channel = client.pubsub()
            channel.subscribe("cascadia:conversations:cascadia")
            await tries(up, "a secret")
            message = None
            while message is None or message["type"] != "message":
                message = await asyncio.to_thread(channel.get_message, timeout=60)
            assert b"secret" not in message["data"]
            assert message["data"].endswith(b':"large"}')
            channel.close()
            client.close()

    with fake_redis() as url:
        run(lambda: main(url))


def test_without_redis_each_host_starts_afresh_and_nobody_waits() -> None:
    async def main(url: str) -> None:
        async with hosts(2, url, listening=False) as ups:
            assert await tries(ups[0], "hard") == "2"
            assert await tries(ups[0], "hard", "strong", "and then?") == "1"
            assert await tries(ups[1], "hard", "strong", "and then?") == "2"

    with nobody() as url:
        run(lambda: main(url))


@pytest.mark.parametrize("noise", [b"[]", b'{"zz": "large"}', b'{"00": 3}', b"\xff"])
def test_what_no_router_wrote_is_passed_over(noise: bytes) -> None:
    async def main(url: str) -> None:
        async with hosts(2, url) as ups:
            client = redis.Redis.from_url(url, protocol=2)
            await asyncio.to_thread(client.publish, "cascadia:conversations:cascadia", noise)
            client.close()
            await tries(ups[0], "hard")
            await until(lambda: len(ups[1].router.conversations) == 1)
            assert await tries(ups[1], "hard", "strong", "and then?") == "1"

    with fake_redis() as url:
        run(lambda: main(url))
