"""Routers that share a Redis hear of one another again once it is back, however it went away."""

import asyncio
from typing import Any

import pytest

from cascadia.router.live.redis_channel import AGAIN_S, LONGEST_S, MOST_TELLING, RedisChannel
from cascadia.router.telemetry.outages import Outage
from cascadia.testing.routers import run, until
from tests.unit.router.redis_servers import babbling_server, fake_redis, nobody, silent_server

SILENT_S = 0.05


def test_a_redis_that_takes_connections_and_says_nothing_is_told_as_gone() -> None:
    async def main(url: str) -> None:
        lines: list[dict[str, Any]] = []
        channel = RedisChannel(url, "t", lambda _: None, Outage("t", lines.append), SILENT_S)
        channel.start()
        await until(lambda: bool(lines))
        assert not channel.listening.is_set()
        async with asyncio.timeout(60):
            await channel.stop()

    with silent_server() as url:
        run(lambda: main(url))


def test_something_else_that_answers_in_place_of_redis_is_told_as_gone() -> None:
    async def main(url: str) -> None:
        lines: list[dict[str, Any]] = []
        channel = RedisChannel(url, "t", lambda _: None, Outage("t", lines.append), SILENT_S)
        channel.start()
        await until(lambda: bool(lines))
        async with asyncio.timeout(60):
            await channel.stop()

    with babbling_server(b":abc\r\n") as url:
        run(lambda: main(url))


def test_a_redis_where_nobody_speaks_for_long_is_asked_and_kept() -> None:
    async def main(url: str) -> None:
        lines: list[dict[str, Any]] = []
        heard: list[bytes] = []
        pongs = 0
        channel = RedisChannel(url, "t", heard.append, Outage("t", lines.append), SILENT_S)
        channel.start()
        await channel.listening.wait()
        for _ in range(3):  # each time by an answer to having been asked
            channel.listening.clear()
            async with asyncio.timeout(60):
                await channel.listening.wait()
            pongs += 1
        await channel.tell(b"news")
        await until(lambda: heard == [b"news"])
        assert (pongs, lines) == (3, [])
        await channel.stop()

    with fake_redis() as url:
        run(lambda: main(url))


def test_a_redis_that_is_lost_is_tried_ever_more_rarely_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    slept = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await slept(0)

    async def main(url: str) -> None:
        lines: list[dict[str, Any]] = []
        channel = RedisChannel(url, "t", lambda _: None, Outage("t", lines.append), SILENT_S)
        monkeypatch.setattr("cascadia.router.live.redis_channel.asyncio.sleep", sleep)
        channel.start()
        await until(lambda: len(waits) >= 20)
        monkeypatch.undo()
        await channel.stop()
        tries = [seconds for seconds in waits if seconds >= AGAIN_S / 2]
        for number, seconds in enumerate(tries[:20], 1):
            longest = min(LONGEST_S, AGAIN_S * 2**number)
            assert longest / 2 <= seconds <= longest
        assert [(line["of"], line["outcome"], line["error"]) for line in lines] == [
            ("t", "lost", "ConnectionError")
        ]

    with nobody() as url:
        run(lambda: main(url))


def test_news_that_cannot_be_heard_end_no_listening() -> None:
    async def main(url: str) -> None:
        lines: list[dict[str, Any]] = []
        heard: list[bytes] = []

        def hear(news: bytes) -> None:
            heard.append(news)
            if news == b"bad":
                raise KeyError(news)

        channel = RedisChannel(url, "t", hear, Outage("t", lines.append), SILENT_S)
        channel.start()
        await until(channel.listening.is_set)
        await channel.tell(b"bad")
        await until(lambda: [line["outcome"] for line in lines] == ["lost", "back"])
        await channel.tell(b"good")
        await until(lambda: heard == [b"bad", b"good"])
        await channel.stop()

    with fake_redis() as url:
        run(lambda: main(url))


def test_news_to_a_redis_that_takes_none_do_not_pile_up() -> None:
    async def main(url: str) -> None:
        channel = RedisChannel(url, "t", lambda _: None, Outage("t", lambda _: None), SILENT_S)
        telling = [asyncio.create_task(channel.tell(b"news")) for _ in range(500)]
        await until(lambda: any(task.done() for task in telling))
        assert sum(not task.done() for task in telling) == MOST_TELLING
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)
        await channel.stop()

    with silent_server() as url:
        run(lambda: main(url))
