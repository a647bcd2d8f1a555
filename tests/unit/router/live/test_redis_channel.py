"""Routers that share a Redis hear of one another again once it is back, however it went away."""

import asyncio

from cascadia.router.live.redis_channel import RedisChannel
from cascadia.testing.routers import run, until
from tests.unit.router.redis_servers import babbling_server, fake_redis, silent_server

SILENT_S = 0.05


def test_a_redis_that_takes_connections_and_says_nothing_is_told_as_gone() -> None:
    async def main(url: str) -> None:
        failures: list[str] = []
        channel = RedisChannel(url, "t", lambda _: None, failures.append, SILENT_S)
        channel.start()
        await until(lambda: bool(failures))
        assert not channel.listening.is_set()
        async with asyncio.timeout(60):
            await channel.stop()

    with silent_server() as url:
        run(lambda: main(url))


def test_something_else_that_answers_in_place_of_redis_is_told_as_gone() -> None:
    async def main(url: str) -> None:
        failures: list[str] = []
        channel = RedisChannel(url, "t", lambda _: None, failures.append, SILENT_S)
        channel.start()
        await until(lambda: bool(failures))
        async with asyncio.timeout(60):
            await channel.stop()

    with babbling_server(b":abc\r\n") as url:
        run(lambda: main(url))


def test_a_redis_where_nobody_speaks_for_long_is_asked_and_kept() -> None:
    async def main(url: str) -> None:
        failures: list[str] = []
        heard: list[bytes] = []
        pongs = 0
        channel = RedisChannel(url, "t", heard.append, failures.append, SILENT_S)
        channel.start()
        await channel.listening.wait()
        for _ in range(3):  # each time by an answer to having been asked
            channel.listening.clear()
            async with asyncio.timeout(60):
                await channel.listening.wait()
            pongs += 1
        await channel.tell(b"news")
        await until(lambda: heard == [b"news"])
        assert (pongs, failures) == (3, [])
        await channel.stop()

    with fake_redis() as url:
        run(lambda: main(url))
