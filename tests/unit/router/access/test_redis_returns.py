"""Limits are right again once Redis is back: nothing counts twice, nothing is forgotten, no answer comes late."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from cascadia.router.access.access import Access
from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import KeyLimits, Keyring
from cascadia.router.access.rate_limits import Usage
from cascadia.router.access.redis_store import RedisStore
from cascadia.router.access.shared_limits import SharedLimits, StoreFailed
from cascadia.router.access.shared_script import SETTLE, TAKE
from cascadia.router.access.spend import Spending, Sums
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.outages import Outage
from cascadia.testing.routers import run, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.access.test_shared_limits import PATIENT_S, QUIET, Away, took
from tests.unit.router.redis_servers import fake_redis, speaking

T = TypeVar("T", RedisStore, SharedLimits)
GRANTED = b"*4\r\n:0\r\n:1000\r\n:5\r\n:0\r\n"
ARGUMENTS = (60, 0, 5, 1, "me", 15_000)


@asynccontextmanager
async def closing(one: T) -> AsyncIterator[T]:
    """Closes it in the end, also where a test fails: uvloop would wait for its connections for ever."""
    try:
        yield one
    finally:
        await one.close()


def test_a_redis_that_knows_one_script_of_two_runs_none_of_them_twice() -> None:
    ran: list[bytes] = []

    def says(number: int, told: bytes, send: Any) -> None:
        if b"EVALSHA" in told:
            # As one that was started anew, and has been shown the one script since.
            ran.append(b"TAKE")
            send(b"-NOSCRIPT No matching script.\r\n" + GRANTED)
        elif b"EVAL" in told:
            settles, takes = told.count(SETTLE.encode()), told.count(TAKE.encode())
            ran.extend([b"SETTLE"] * settles + [b"TAKE"] * takes)
            send(b":0\r\n" * settles + GRANTED * takes)
        else:
            send(answers_to(told, b""))

    async def main(url: str) -> None:
        async with closing(RedisStore(url, PATIENT_S)) as store:
            answers = await store.run([(SETTLE, "k", (0, "me", 0, 15_000)), (TAKE, "k", ARGUMENTS)])
            assert answers == [0, [0, 1000, 5, 0]]
            assert ran == [b"TAKE", b"SETTLE"]

    with speaking(says) as url:
        run(lambda: main(url))


def test_what_was_let_in_without_redis_is_told_to_it_with_the_first_question_after() -> None:
    async def main() -> None:
        key, _ = made(limits=KeyLimits(concurrent=5))
        store, lines = Away(1), list[dict[str, Any]]()
        access = Access(Keyring([key]), KeyMetrics(Metrics()))
        running = access.running
        shared = SharedLimits(store, lambda _: None, Outage("limits", lines.append), running, again_s=0.0)
        access.shared = shared
        account = access._accounts[key.id]
        alone = [await access.admit(Exchange(), account, "m", 1, 1) for _ in range(1)]
        assert account.usage.running == 1
        with_redis = await access.admit(Exchange(), account, "m", 1, 1)
        # Before it is asked for the second it hears of the first.
        assert [(script, arguments[2]) for script, _, arguments in store.calls] == [(SETTLE, 1), (TAKE, 5)]
        store.calls.clear()
        for reservation in (*alone, with_redis):
            reservation.release(left=False)
        await shared._worker  # type: ignore[misc]
        assert [arguments[2] for _, _, arguments in store.calls] == [0]
        assert [line["outcome"] for line in lines] == ["lost", "back"]
        await shared.close()

    run(main)


class Exchange:
    more = b""


class Broken:
    async def run(self, calls: Sequence[tuple[str, str, Sequence[str | int]]]) -> list[Any]:
        raise RuntimeError("readuntil() called while another coroutine is already waiting")

    async def close(self) -> None: ...


def test_a_fault_of_the_client_ends_no_request() -> None:
    async def main() -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        shared = SharedLimits(Broken(), failures.append, QUIET)
        assert await asyncio.gather(*(shared.take(key, Usage(), 1) for _ in range(3))) == [None] * 3
        assert failures == ["unreadable"] * 3
        await shared.close()

    run(main)


def answers_to(told: bytes, verdict: bytes) -> bytes:
    """Answers to a client's greeting, to scripts that are loaded, and to those that are run."""
    said = told.upper()
    return (
        b"+OK\r\n" * said.count(b"CLIENT")
        + b"$1\r\nx\r\n" * said.count(b"LOAD")
        + verdict * said.count(b"EVALSHA")
    )


def test_an_answer_that_comes_too_late_is_nobody_elses() -> None:
    asked, given_up, sent = threading.Event(), threading.Event(), threading.Event()

    def says(number: int, told: bytes, send: Any) -> None:
        if b"EVALSHA" in told and not asked.is_set():
            asked.set()
            given_up.wait(60)
            try:
                send(GRANTED)
            finally:
                sent.set()
            return
        send(answers_to(told, b"*4\r\n:1\r\n:0\r\n:5\r\n:700\r\n"))

    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        store = RedisStore(url, 0.3)
        async with closing(SharedLimits(store, lambda _: None, QUIET, again_s=0.0)) as shared:
            assert await shared.take(key, Usage(), 1) is None
            given_up.set()
            await until(sent.is_set)
            verdict = await took(shared, key, Usage(), 1)
            assert (verdict.refused, verdict.wait_s) == ("requests", 0.7)

    with speaking(says) as url:
        run(lambda: main(url))


def test_a_redis_that_may_no_longer_write_is_left_for_the_one_that_may() -> None:
    def says(number: int, told: bytes, send: Any) -> None:
        readonly = b"-READONLY You can't write against a read only replica.\r\n"
        send(answers_to(told, readonly if number == 0 else GRANTED))

    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(requests_per_minute=5))
        failures: list[str] = []
        async with closing(
            SharedLimits(RedisStore(url, PATIENT_S), failures.append, QUIET, again_s=0.0)
        ) as shared:
            assert await shared.take(key, Usage(), 1) is None
            assert (await took(shared, key, Usage(), 1)).refused is None
            assert failures == ["refused"]

    with speaking(says) as url:
        run(lambda: main(url))


def test_a_router_whose_time_is_of_another_clock_is_not_believed_for_that_long() -> None:
    async def main(url: str) -> None:
        key, _ = made(limits=KeyLimits(concurrent=1))
        async with closing(SharedLimits(RedisStore(url, PATIENT_S), lambda _: None, QUIET)) as shared:
            client = shared._store._client  # type: ignore[attr-defined]
            # A router that died told a Redis whose clock was an hour before the one of now.
            seconds, _ = await client.time()
            await client.hset(f"cascadia:limits:{{{key.id}}}", "p:gone", f"1 {seconds * 1000 + 3_600_000}")
            assert (await took(shared, key, Usage(), 1)).refused is None

    with fake_redis() as url:
        run(lambda: main(url))


class Forgetful:
    """A book that is begun anew in the middle of the month."""

    def __init__(self) -> None:
        self.others: Sums = {"k": {"small": 90.0}}

    async def exchange(self, month: str, mine: object) -> Sums:
        if not self.others:
            raise StoreFailed("connection")
        return self.others

    async def close(self) -> None: ...


def test_a_budget_is_not_given_again_because_redis_has_lost_what_was_spent() -> None:
    async def main() -> None:
        book, spending = Forgetful(), Spending()
        await spending.start(book)
        spending.charge("k", "small", 1.0)
        for others, total in (({}, 91.0), ({"k": {"large": 2.0}}, 93.0), ({"k": {"small": 95.0}}, 98.0)):
            book.others = others
            await spending.exchange()
            assert spending.total_usd("k") == total
        await spending.stop()

    run(main)
