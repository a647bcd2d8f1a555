"""How much a key may use: buckets in exact time, and the answers that clients get."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.router.access.access import Reservation
from cascadia.router.access.keys import Key, KeyLimits, Keyring
from cascadia.router.access.rate_limits import RateLimitHeaders, Usage, Verdict
from cascadia.router.openai.stream_usage import StreamUsage
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made


@asynccontextmanager
async def limited(
    limits: KeyLimits, *engines: FakeEngine, thresholds: tuple[float, ...] = (), **more: Any
) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """A router with one key, and the header of that key."""
    key, header = made(limits=limits)
    async with started(*engines):
        settings = RouterSettings(
            stages(*engines, thresholds=thresholds), None, health=QUICK, keys=KeySettings(Path("keys.json"))
        )
        async with running(settings, keyring=Keyring([key]), **more) as up:
            yield up, header


def usage_of(up: Running) -> Usage:
    assert up.router.access is not None
    (account,) = up.router.access._accounts.values()
    return account.usage


def test_a_minutes_worth_may_come_at_once_and_then_one_at_a_time() -> None:
    limits, usage = KeyLimits(requests_per_minute=60), Usage()
    granted = [usage.take(limits, 1, 0.0).refused is None for _ in range(61)]
    assert granted == [True] * 60 + [False]
    assert usage.take(limits, 1, 0.999).wait_s == pytest.approx(0.001)
    assert usage.take(limits, 1, 1.0).refused is None
    assert usage.take(limits, 1, 1.0).refused == "requests"
    assert usage.take(limits, 1, 1000.0).requests == 59.0


def test_a_clock_that_goes_back_fills_nothing_and_takes_nothing_away() -> None:
    limits, usage = KeyLimits(requests_per_minute=60, tokens_per_minute=600), Usage()
    assert usage.take(limits, 100, 100.0) == Verdict(None, 59.0, 500.0, 0.0)
    assert usage.take(limits, 100, 40.0) == Verdict(None, 58.0, 400.0, 0.0)
    assert usage.take(limits, 100, 40.0) == Verdict(None, 57.0, 300.0, 0.0)
    assert usage.take(limits, 100, 41.0) == Verdict(None, 57.0, 210.0, 0.0)


def test_tokens_are_put_right_when_they_were_counted_and_who_overdrew_waits() -> None:
    limits, usage = KeyLimits(tokens_per_minute=600), Usage()
    assert usage.take(limits, 500, 0.0).refused is None
    assert usage.take(limits, 200, 0.0) == Verdict("tokens", 0.0, 100.0, 10.0)
    usage.settle(500, 50)
    assert usage.take(limits, 200, 0.0).tokens == 350.0
    usage.settle(200, 1150)
    refused = usage.take(limits, 100, 0.0)
    assert refused == Verdict("tokens", 0.0, -600.0, 70.0)
    assert usage.take(limits, 100, 70.0).refused is None


def test_what_is_larger_than_the_limit_is_never_granted_and_said_to_be_so() -> None:
    assert math.isinf(Usage().take(KeyLimits(tokens_per_minute=100), 101, 0.0).wait_s)


def test_requests_at_once_are_counted_until_they_end() -> None:
    limits, usage = KeyLimits(concurrent=2), Usage()
    assert [usage.take(limits, 1, 0.0).refused for _ in range(3)] == [None, None, "concurrent"]
    usage.settle(1, 1)
    assert usage.take(limits, 1, 0.0).refused is None


@given(
    rpm=st.integers(1, 1000),
    gaps=st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=200),
)
def test_no_span_of_time_sees_more_than_a_minutes_worth_beyond_the_rate(rpm: int, gaps: list[float]) -> None:
    limits, usage, now_s, granted = KeyLimits(requests_per_minute=rpm), Usage(), 0.0, []
    for gap in gaps:
        now_s += gap
        if usage.take(limits, 1, now_s).refused is None:
            granted.append(now_s)
    for i, first in enumerate(granted):
        for j in range(i, len(granted)):
            assert j - i + 1 <= rpm * (1 + (granted[j] - first) / 60) + 1e-6


def test_a_clock_that_goes_back_grants_nothing_and_breaks_nothing() -> None:
    limits, usage = KeyLimits(requests_per_minute=1), Usage()
    assert usage.take(limits, 1, 100.0).refused is None
    assert usage.take(limits, 1, 50.0).refused == "requests"


def test_headers_say_limit_rest_and_when_all_is_back() -> None:
    limits, usage = KeyLimits(60, 6000), Usage()
    lines = RateLimitHeaders(limits).lines(usage.take(limits, 100, 0.0)).splitlines()
    headers = dict(line.split(b": ") for line in lines)
    assert headers == {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1000ms",
        b"x-ratelimit-limit-tokens": b"6000",
        b"x-ratelimit-remaining-tokens": b"5900",
        b"x-ratelimit-reset-tokens": b"1000ms",
    }
    assert RateLimitHeaders(KeyLimits(concurrent=1)).lines(usage.take(limits, 1, 0.0)) == b""


def test_a_client_over_its_requests_gets_openais_429() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with limited(KeyLimits(requests_per_minute=2), engine) as (up, header):
            first, second, third = [await up.chat("small", headers=header) for _ in range(3)]
            assert first.headers["x-ratelimit-remaining-requests"] == "1"
            assert second.status_code == 200
            assert third.status_code == 429
            assert 1 <= int(third.headers["retry-after"]) <= 30
            assert third.headers["x-ratelimit-remaining-requests"] == "0"
            error = third.json()["error"]
            assert (error["type"], error["code"], error["param"]) == ("requests", "rate_limit_exceeded", None)
        assert len(engine.requests) == 2

    run(main)


def test_a_stream_has_the_headers_too() -> None:
    async def main() -> None:
        async with limited(KeyLimits(requests_per_minute=2), FakeEngine()) as (up, header):
            answer = await up.chat("small", stream=True, headers=header)
            assert answer.headers["x-ratelimit-remaining-requests"] == "1"

    run(main)


def test_an_estimate_is_held_while_a_request_runs_and_its_usage_is_charged_after() -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion("four"))

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with limited(KeyLimits(tokens_per_minute=1000), engine) as (up, header):
            asking = asyncio.create_task(up.chat("small", max_tokens=900, headers=header))
            await engine.arrived.wait()
            other = await up.chat("small", max_tokens=900, headers=header)
            assert other.status_code == 429
            assert other.json()["error"]["type"] == "tokens"
            go.set()
            assert (await asking).status_code == 200
            usage = usage_of(up)
            await until(lambda: usage.running == 0)
            # The engine counted 13; the bucket has filled a little meanwhile.
            assert 987 <= usage.tokens <= 1000
            huge = await up.chat("small", max_tokens=5000, headers=header)
            assert huge.status_code == 429
            assert "retry-after" not in huge.headers

    run(main)


def test_of_the_cascade_the_tokens_of_all_stages_are_charged() -> None:
    async def main() -> None:
        small, large = FakeEngine("s"), FakeEngine("l")
        gate = ScriptedGate({"s": 10.0})
        limits = KeyLimits(tokens_per_minute=100_000)
        async with limited(limits, small, large, thresholds=(50,), gate=gate) as (up, header):
            for stream in (False, True):
                before = counted(up)
                assert (await up.chat(stream=stream, headers=header)).status_code == 200
                await until(lambda: usage_of(up).running == 0)
                # 13 of each stage; of a live stream without usage an estimate: a short prompt, six events.
                assert 26 <= counted(up) - before <= 60

    run(main)


def counted(up: Running) -> float:
    assert up.router.access is not None
    return up.router.access.metrics.tokens.labels("team-a").value


def test_requests_at_once_are_limited_and_free_again_however_they_end() -> None:
    async def hold(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("fail"):
            send(writer, 400, b'{"error": {}}')
            return
        await engine.left.wait()

    async def main() -> None:
        engine = FakeEngine(answer=hold)
        async with limited(KeyLimits(concurrent=1, tokens_per_minute=10_000), engine) as (up, header):
            asking = asyncio.create_task(up.chat("small", headers=header))
            await engine.arrived.wait()
            assert (await up.chat("small", headers=header)).json()["error"]["type"] == "concurrent"
            asking.cancel()
            await until(lambda: usage_of(up).running == 0)
            # Its engine has worked, and nobody knows how much: the estimate stands.
            assert counted(up) > 250
            assert (await up.chat("small", fail=True, headers=header)).status_code == 400
            assert (await up.chat("nothing", headers=header)).status_code == 404
            await until(lambda: usage_of(up).running == 0)

    run(main)


@pytest.mark.parametrize("cut", [1, 7, 100, 10_000])
def test_usage_is_read_at_a_streams_end_wherever_it_is_cut(cut: int) -> None:
    content = b'data: {"choices":[{"delta":{"content":"\\"prompt_tokens\\": 9"}}]}\n\n' * 300
    content += (
        b'data: {"choices":[],"usage":{"prompt_tokens": 11, "completion_tokens":300}}\n\ndata: [DONE]\n\n'
    )
    usage = StreamUsage()
    for at in range(0, len(content), cut):
        usage.add(content[at : at + cut])
    assert usage.tokens(5) == 311


def test_a_stream_that_says_nothing_is_counted_by_its_events_or_its_texts() -> None:
    usage = StreamUsage()
    for _ in range(10):
        usage.add(b'data: {"choices":[{"delta":{"content":"x \\"prompt_tokens\\": 9"}}]}\n\n')
    assert usage.tokens(5) == 5 + 10 * 22 // 4


@pytest.mark.parametrize("key", ["content", "text", "delta", "reasoning_content", "arguments"])
def test_an_event_of_many_tokens_counts_as_many(key: str) -> None:
    usage = StreamUsage()
    for _ in range(10):
        usage.add(b'data: {"choices":[{"%s":"%s"}]}\n\n' % (key.encode(), b'four \\"s' * 40))
    assert usage.tokens(5) == 5 + 10 * 40 * 8 // 4


def test_a_stream_that_breaks_off_is_charged_for_what_came() -> None:
    async def cut(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for _ in range(5):
            event(writer, delta("x"))
        await writer.drain()
        writer.transport.abort()

    async def main() -> None:
        engine = FakeEngine(answer=cut)
        async with limited(KeyLimits(tokens_per_minute=10_000), engine) as (up, header):
            answer = await up.chat("small", stream=True, headers=header)
            assert "error" in answer.text
            await until(lambda: usage_of(up).running == 0)
            assert 1 <= counted(up) <= 60

    run(main)


def test_limits_that_change_hold_at_once_and_what_was_used_stays() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with limited(KeyLimits(requests_per_minute=10), engine) as (up, header):
            for _ in range(5):
                assert (await up.chat("small", headers=header)).status_code == 200
            access = up.router.access
            assert access is not None
            (key,) = access.keyring
            access.replace(Keyring([Key(key.id, key.name, key.digest, limits=KeyLimits(2))]))
            answers = [(await up.chat("small", headers=header)).status_code for _ in range(3)]
            assert answers == [200, 200, 429]
            access.replace(Keyring([]))
            assert (await up.chat("small", headers=header)).status_code == 401

    run(main)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (
            KeyLimits(60, 6000),
            {"remaining-requests": 0, "reset-requests": 61000, "remaining-tokens": 0, "reset-tokens": 62000},
        ),
        (KeyLimits(requests_per_minute=60), {"remaining-requests": 0, "reset-requests": 61000}),
        (KeyLimits(tokens_per_minute=6000), {"remaining-tokens": 0, "reset-tokens": 62000}),
    ],
)
def test_what_was_overdrawn_is_told_as_nothing_left(limits: KeyLimits, told: dict[str, int]) -> None:
    lines = RateLimitHeaders(limits).lines(Verdict(None, -1.0, -200.0, 0.0)).splitlines()
    headers = {k.decode(): int(v.removesuffix(b"ms")) for k, v in (line.split(b": ") for line in lines)}
    rest = {k.removeprefix("x-ratelimit-"): v for k, v in headers.items() if "limit-limit" not in k}
    assert rest == told


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (KeyLimits(requests_per_minute=60), {"remaining-requests": 1, "reset-requests": 59000}),
        (KeyLimits(tokens_per_minute=6000), {"remaining-tokens": 1, "reset-tokens": 59990}),
        (
            KeyLimits(requests_per_minute=60, tokens_per_minute=6000),
            {"remaining-requests": 1, "reset-requests": 59000, "remaining-tokens": 1, "reset-tokens": 59990},
        ),
    ],
)
def test_the_last_one_left_is_told(limits: KeyLimits, told: dict[str, int]) -> None:
    lines = RateLimitHeaders(limits).lines(Verdict(None, 1.0, 1.0, 0.0)).splitlines()
    headers = {k.decode(): int(v.removesuffix(b"ms")) for k, v in (line.split(b": ") for line in lines)}
    assert {k.removeprefix("x-ratelimit-"): v for k, v in headers.items() if "limit-limit" not in k} == told


class Tallied:
    """An account that keeps what is charged to it."""

    def __init__(self) -> None:
        self.usage = Usage(running=1)
        self.used = SimpleNamespace(value=0)


@pytest.mark.parametrize(
    ("spent", "left", "used"), [(None, True, 500), (None, False, 0), (40, True, 40), (40, False, 40)]
)
def test_the_estimate_stands_only_where_the_client_left_before_tokens_were_counted(
    spent: int | None, left: bool, used: int
) -> None:
    account = Tallied()
    reservation = Reservation(account, 500, 100, None, True)  # type: ignore[arg-type]
    reservation.spent = spent
    reservation.release(left=left)
    assert (account.used.value, account.usage.running) == (used, 0)
