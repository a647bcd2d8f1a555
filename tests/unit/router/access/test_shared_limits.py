"""Limits per key over several routers: one count in Redis, and each by itself where Redis is away."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from cascadia.router.access.keys import Key, KeyLimits, Keyring
from cascadia.router.access.rate_limits import Usage, Verdict
from cascadia.router.access.redis_store import RedisStore
from cascadia.router.access.shared_limits import MOST_WAITING, SharedLimits, StoreFailed
from cascadia.router.access.spend_books import RedisBook
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.router.telemetry.outages import Outage
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, run, running, stages, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.redis_servers import babbling_server, fake_redis, nobody, silent_server

PATIENT_S = 10.0
QUIET = Outage("limits", lambda _: None)


@asynccontextmanager
async def sharing(url: str, failures: list[str], timeout_s: float = PATIENT_S) -> AsyncIterator[SharedLimits]:
    shared = SharedLimits(RedisStore(url, timeout_s), failures.append, QUIET, again_s=60.0)
    try:
        yield shared
    finally:
        await shared.close()


def test_two_routers_grant_together_what_the_limit_says() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=50))
        failures: list[str] = []
        async with sharing(url, failures) as one, sharing(url, failures) as other:
            usages = Usage(), Usage()
            asked = [s.take(key, u, 1) for _ in range(40) for s, u in zip((one, other), usages, strict=True)]
            verdicts = await asyncio.gather(*asked)
        granted = sum(verdict is not None and verdict.refused is None for verdict in verdicts)
        # 50, and what the bucket gained during the test.
        assert 50 <= granted <= 60
        assert sum(usage.running for usage in usages) == granted
        refused = next(verdict for verdict in verdicts if verdict is not None and verdict.refused is not None)
        assert refused.refused == "requests"
        assert 0 < refused.wait_s <= 1.3
        assert failures == []

    with fake_redis() as url:
        run(lambda: main(url))


def test_tokens_given_back_by_one_are_there_for_the_other() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(tokens_per_minute=600))
        usage = Usage()
        async with sharing(url, []) as one, sharing(url, []) as other:
            assert (await took(one, key, usage, 550)).refused is None
            verdict = await took(other, key, Usage(), 500)
            assert verdict.refused == "tokens"
            assert 30 < verdict.wait_s <= 45
            assert (await took(other, key, Usage(), 601)).wait_s == float("inf")
            usage.running -= 1
            one.settle(key, usage, 500)
            await one._worker  # type: ignore[misc]
            assert (await took(other, key, Usage(), 500)).refused is None

    with fake_redis() as url:
        run(lambda: main(url))


async def took(shared: SharedLimits, key: Key, usage: Usage, tokens: int) -> Any:
    verdict = await shared.take(key, usage, tokens)
    assert verdict is not None
    return verdict


def test_requests_at_once_are_counted_over_routers_and_those_of_a_dead_one_are_forgotten() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(concurrent=3))
        mine, dead = Usage(), Usage()
        async with sharing(url, []) as one, sharing(url, []) as other:
            for _ in range(2):
                assert (await took(other, key, dead, 1)).refused is None
            assert (await took(one, key, mine, 1)).refused is None
            assert (await took(one, key, mine, 1)).refused == "concurrent"
            # The other router dies; Redis believes it for a while, which is over:
            place = f"cascadia:limits:{{{key.id}}}"
            client = one._store._client  # type: ignore[attr-defined]
            await client.hset(place, f"p:{other._me}", "2 1000")
            assert (await took(one, key, mine, 1)).refused is None
            assert mine.running == 2
            mine.running -= 2
            one.settle(key, mine, 0)
            await one._worker  # type: ignore[misc]
            fields = await client.hgetall(place)
            assert not [name for name in fields if name.startswith(b"p:")]

    with fake_redis() as url:
        run(lambda: main(url))


def test_who_comes_when_too_many_wait_is_not_kept_waiting() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        async with sharing(url, failures, timeout_s=0.1) as shared:
            asked = [asyncio.create_task(shared.take(key, Usage(), 1)) for _ in range(MOST_WAITING + 700)]
            await asyncio.gather(*asked)
        assert (failures.count("busy"), failures.count("timeout")) == (700, MOST_WAITING)

    with silent_server() as url:
        run(lambda: main(url))


def test_who_leaves_before_redis_answers_holds_nothing() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(tokens_per_minute=1000, concurrent=1))
        usage = Usage()
        async with sharing(url, []) as shared:
            leaving = asyncio.create_task(shared.take(key, usage, 900))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            await shared._worker  # type: ignore[misc]
            assert usage.running == 0
            assert (await took(shared, key, usage, 900)).refused is None

    with fake_redis() as url:
        run(lambda: main(url))


@pytest.mark.parametrize(("server", "kind"), [(nobody, "connection"), (silent_server, "timeout")])
def test_where_redis_is_away_nobody_waits_long_and_it_is_counted(server: Any, kind: str) -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        async with sharing(url, failures, timeout_s=0.1) as shared:
            asked = await asyncio.gather(*(shared.take(key, Usage(), 1) for _ in range(10)))
            assert asked == [None] * 10
            assert failures == [kind] * 10
            assert not shared.up
            # It is left alone for a while.
            assert await shared.take(key, Usage(), 1) is None
            assert failures[-1] == "down"

    with server() as url:
        run(lambda: main(url))


@pytest.mark.parametrize(
    "answer", [b"+OK\r\n" * 8, b":abc\r\n" * 8, b"*1\r\n:1\r\n" * 8, b"$-1\r\n" * 8, b"HTTP/1.1 400\r\n"]
)
def test_where_something_else_answers_in_place_of_redis_nobody_waits_for_ever(answer: bytes) -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        async with sharing(url, failures) as shared, asyncio.timeout(60):
            assert await asyncio.gather(*(shared.take(key, Usage(), 1) for _ in range(3))) == [None] * 3
        assert len(failures) == 3

    with babbling_server(answer) as url:
        run(lambda: main(url))


@asynccontextmanager
async def routers(
    engine: FakeEngine, url: str, limits: KeyLimits, on_failure: Any = "local", count: int = 2
) -> AsyncIterator[tuple[list[Running], dict[str, str]]]:
    """`count` routers that share one key's limits, and its header."""
    key, header = made(limits=limits)
    keys = KeySettings(Path("k"), (), url, PATIENT_S if on_failure == "local" else 0.2, on_failure)
    settings = RouterSettings(stages(engine), None, health=QUICK, keys=keys)
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(running(settings, keyring=Keyring([key]))) for _ in range(count)
        ]
        yield both, header


def test_a_key_has_one_limit_behind_two_routers() -> None:
    async def main(url: str) -> None:
        engine = FakeEngine()
        async with started(engine), routers(engine, url, KeyLimits(requests_per_minute=6)) as (ups, header):
            statuses = [(await up.chat("small", headers=header)).status_code for _ in range(5) for up in ups]
        assert statuses[:6] == [200] * 6
        assert statuses.count(200) in (6, 7)
        assert set(statuses) == {200, 429}

    with fake_redis() as url:
        run(lambda: main(url))


def test_requests_at_once_are_one_count_behind_two_routers() -> None:
    async def hold(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("quick"):
            await engine.left.wait()
        send(writer, 200, completion("x"))

    async def main(url: str) -> None:
        engine = FakeEngine(answer=hold)
        async with started(engine), routers(engine, url, KeyLimits(concurrent=1)) as ((one, other), header):
            asking = asyncio.create_task(one.chat("small", headers=header))
            await engine.arrived.wait()
            assert (await other.chat("small", quick=True, headers=header)).status_code == 429
            asking.cancel()
            access = one.router.access
            assert access is not None
            await until(lambda: not any(account.usage.running for account in access._accounts.values()))
            await access.shared._worker  # type: ignore[union-attr]
            assert (await other.chat("small", quick=True, headers=header)).status_code == 200

    with fake_redis() as url:
        run(lambda: main(url))


@pytest.mark.parametrize(("rule", "expected"), [("local", [200, 200, 429]), ("refuse", [503, 503, 503])])
def test_without_redis_each_router_does_as_it_is_told(rule: str, expected: list[int]) -> None:
    async def main(url: str) -> None:
        engine = FakeEngine()
        async with (
            started(engine),
            routers(engine, url, KeyLimits(requests_per_minute=2), rule, count=1) as ((up,), header),
        ):
            answers = [await up.chat("small", headers=header) for _ in range(3)]
            assert [answer.status_code for answer in answers] == expected
            key, unlimited = made("unlimited")
            access = up.router.access
            assert access is not None
            access.replace(Keyring([*access.keyring, key]))
            assert (await up.chat("small", headers=unlimited)).status_code == 200
            metrics = (await up.client.get("/metrics", headers=unlimited)).status_code
            assert metrics == 403

    with nobody() as url:
        run(lambda: main(url))


class Nonsense:
    """A Redis behind which somebody answers with `answer`, whatever is asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def run(self, calls: Sequence[tuple[str, str, Sequence[str | int]]]) -> list[Any]:
        return list(self.answer)

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    "answer", [[], [b"OK"], [None], [1], [[1]], [[0, 1, 1, b"x"]], [[7, 0, 0, 0]], [[0, 1, 1, 0]] * 2]
)
def test_an_answer_that_is_no_verdict_keeps_nobody_waiting(answer: Any) -> None:
    async def main() -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        shared = SharedLimits(Nonsense(answer), failures.append, QUIET)
        async with asyncio.timeout(60):
            assert await shared.take(key, Usage(), 1) is None
        assert failures == ["unreadable"]
        await shared.close()

    run(main)


class Away:
    """A Redis that is away for the first `times` exchanges, and then grants everything."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls: list[tuple[str, str, Sequence[str | int]]] = []

    async def run(self, calls: Sequence[tuple[str, str, Sequence[str | int]]]) -> list[Any]:
        self.times -= 1
        if self.times >= 0:
            raise StoreFailed("connection")
        self.calls += calls
        return [[0, 1000, 5, 0] for _ in calls]

    async def close(self) -> None: ...


def test_once_its_time_away_has_passed_redis_is_asked_again() -> None:
    async def main() -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        shared = SharedLimits(Away(1), failures.append, QUIET, again_s=0.0)
        assert await shared.take(key, Usage(), 1) is None
        assert not shared.up
        taken = await shared.take(key, Usage(), 1)
        assert taken == Verdict(None, 1.0, 5.0, 0.0)
        assert shared.up
        assert failures == ["connection"]
        await shared.close()

    run(main)


def test_redis_is_left_alone_for_as_long_as_was_said() -> None:
    async def main() -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        store = Away(1)
        shared = SharedLimits(store, failures.append, QUIET, again_s=60.0)
        assert [await shared.take(key, Usage(), 1) for _ in range(3)] == [None] * 3
        assert store.calls == []
        assert 0 < shared._down_until_s - asyncio.get_running_loop().time() <= 60.0
        await shared.close()

    run(main)


def test_redis_is_told_again_of_requests_that_run_long_and_of_no_others() -> None:
    async def main() -> None:
        (long, _), (short, _) = (made(limits=KeyLimits(concurrent=5)) for _ in range(2))
        store = Away(0)
        shared = SharedLimits(store, lambda _: None, QUIET)
        runs, ran = Usage(), Usage()
        await took(shared, long, runs, 7)
        await took(shared, short, ran, 7)
        ran.running -= 1
        store.calls.clear()
        for _ in range(2):
            assert shared._teller is not None
            shared._teller.cancel()
            shared._tell_again()
            await shared._worker  # type: ignore[misc]
        tokens, _, running, _ = store.calls[0][2]
        assert (tokens, running) == (0, 1)
        assert [place for _, place, _ in store.calls] == [f"cascadia:limits:{{{long.id}}}"] * 2
        runs.running -= 1
        shared._teller.cancel()
        shared._tell_again()
        assert shared._teller is None
        assert len(store.calls) == 2
        await shared.close()

    run(main)


def test_what_a_router_of_another_version_keeps_besides_changes_no_count() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(concurrent=3))
        until_ms = int(time.time() * 1000) + 10_000
        limits = {"p:later": f"2 {until_ms} more", "p:other": "nobody knows", "version": "2"}
        spend = {"version": "2", "other|a|small": "nobody knows", f"other|{key.id}|small": "0.5"}
        async with redis.asyncio.Redis.from_url(url) as store:
            await store.hset(f"cascadia:limits:{{{key.id}}}", mapping=limits)  # type: ignore[misc]
            await store.hset("cascadia:spend:{2026-11}", mapping=spend)  # type: ignore[misc]
        failures: list[str] = []
        async with sharing(url, failures, 2.0) as one:
            usage = Usage()
            verdicts = [await one.take(key, usage, 1) for _ in range(2)]
        assert failures == []
        assert [verdict and verdict.refused for verdict in verdicts] == [None, "concurrent"]
        book = RedisBook(RedisStore(url, 2.0), QUIET)
        try:
            assert await book.exchange("2026-11", {}) == {key.id: {"small": 0.5}}
        finally:
            await book.close()

    with fake_redis() as url:
        run(lambda: main(url))
