"""A second replica is asked where the first is unusually slow, and whoever loses is cancelled."""

import asyncio
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.router.replicas.hedging import FEWEST, REMEMBERED, Quantile, raced
from cascadia.router.settings.model import HedgeSettings
from cascadia.router.upstream.errors import UpstreamError
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import run, running, stages, until


@given(st.lists(st.floats(0, 100), min_size=1, max_size=2 * REMEMBERED))
def test_the_quantile_is_that_of_the_latest(times_s: list[float]) -> None:
    quantile = Quantile(0.95)
    for seconds in times_s:
        quantile.seen(seconds)
    latest = sorted(times_s[-REMEMBERED:])
    expected = latest[min(len(latest) - 1, int(0.95 * len(latest)))] if len(latest) >= FEWEST else None
    assert quantile.value_s == expected


def test_of_two_that_race_a_failure_does_not_win_and_the_late_loser_is_dropped() -> None:
    async def fails() -> str:
        await asyncio.sleep(0)
        raise UpstreamError("reset")

    async def says(word: str) -> str:
        return word

    async def main() -> None:
        dropped: list[str] = []
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        assert await raced(never, 0.001, lambda: says("b"), dropped.append) == ("b", True)
        assert never.cancelled()
        assert await raced(says("a"), 10.0, lambda: says("b"), dropped.append) == ("a", False)

        async def fails_later() -> str:
            await asyncio.sleep(0.01)
            raise UpstreamError("status")

        with pytest.raises(UpstreamError, match="status"):
            await raced(fails_later(), 0.001, fails, dropped.append)
        with pytest.raises(UpstreamError, match="status"):
            await raced(fails_later(), 0.001, lambda: None, dropped.append)
        both: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def at_once() -> str:
            both.set_result("a")
            return "b"

        assert await raced(both, 0.001, at_once, dropped.append) == ("a", False)
        assert dropped == ["b"]

    run(main)


def hedged(*engines: FakeEngine, **hedge: float) -> Any:
    """Round robin, so that it is known whose turn it is."""
    (stage,) = stages([*engines])
    return (replace(stage, hedge=HedgeSettings(**hedge), balancing="round-robin"),)


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_replica_is_overtaken_by_another_and_its_work_cancelled(stream: bool) -> None:
    async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        engines = [FakeEngine("a"), FakeEngine("b")]
        async with started(*engines), running(hedged(*engines, ratio=0.5)) as up:
            for _ in range(FEWEST):
                assert (await up.chat("small", stream=stream)).status_code == 200
            engines[0].answer = hang
            for _ in range(2):
                answer = await up.chat("small", stream=stream)
                assert answer.status_code == 200
                said = answer.text if stream else answer.json()["choices"][0]["message"]["content"]
                assert '"b"' in said or said == "b"
            await engines[0].left.wait()
            stage = up.router.stages[0]
            await until(lambda: all(r.running == 0 for r in stage.replicas))
            metrics = (await up.client.get("/metrics")).text
            assert stage.replicas[0].breaker.failures == 0
        # The other request may have been slower than usual too.
        counted = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if "hedges_total{" in line)
        assert float(counted['cascadia_hedges_total{stage="small",what="sent"}']) >= 1
        assert float(counted['cascadia_hedges_total{stage="small",what="won"}']) >= 1

    run(main)


def test_hedges_stay_within_their_budget() -> None:
    gone = asyncio.Event()

    async def slow(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("slow"):
            await gone.wait()
        send(writer, 200, completion("late"))

    async def main() -> None:
        engines = [FakeEngine(answer=slow), FakeEngine(answer=slow)]
        async with started(*engines), running(hedged(*engines, ratio=0.01)) as up:
            for _ in range(FEWEST):
                await up.chat("small")
            asking = [asyncio.create_task(up.chat("small", slow=True)) for _ in range(10)]
            await until(lambda: sum(len(e.requests) for e in engines) == FEWEST + 11)
            gone.set()
            answers = await asyncio.gather(*asking)
        assert [a.status_code for a in answers] == [200] * 10
        assert sum(len(e.requests) for e in engines) == FEWEST + 11

    run(main)


def test_a_client_that_leaves_ends_both() -> None:
    async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("slow"):
            await engine.left.wait()
        send(writer, 200, completion("a"))

    async def main() -> None:
        engines = [FakeEngine(answer=hang), FakeEngine(answer=hang)]
        async with started(*engines), running(hedged(*engines, ratio=0.5)) as up:
            for _ in range(FEWEST):
                await up.chat("small")
            asking = asyncio.create_task(up.chat("small", slow=True))
            await until(lambda: all(any(r.get("slow") for r in e.requests) for e in engines))
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            for engine in engines:
                await engine.left.wait()
            await until(lambda: all(r.running == 0 for r in up.router.stages[0].replicas))

    run(main)


def test_a_stream_is_not_hedged_once_its_first_part_has_come() -> None:
    go = asyncio.Event()

    async def late(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("first"))
        await writer.drain()
        if body.get("slow"):
            await go.wait()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engines = [FakeEngine(answer=late), FakeEngine(answer=late)]
        async with started(*engines), running(hedged(*engines, ratio=0.5)) as up:
            usual_s = 1.0
            hedge = up.router.stages[0].attempts.hedge
            assert hedge is not None
            for _ in range(FEWEST):
                hedge.first.seen(usual_s)
            body = {"model": "small", "stream": True, "slow": True}
            began_s = monotonic()
            async with up.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                parts = answer.aiter_text()
                assert "first" in await anext(parts)
                await until(lambda: monotonic() > began_s + 1.1 * usual_s)
                go.set()
                assert "[DONE]" in "".join([part async for part in parts])
        asked = [r for e in engines for r in e.requests if r.get("slow")]
        assert len(asked) == 1

    run(main)


def test_hedging_is_off_unless_asked_for() -> None:
    (stage,) = stages([FakeEngine()])
    assert stage.hedge is None


def test_two_that_failed_beside_each_other_are_not_asked_again() -> None:
    async def fails(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not other.requests:
            await other.arrived.wait()
        send(writer, 500, b"{}")

    first, other = FakeEngine(answer=fails), FakeEngine(answer=fails)

    async def main() -> None:
        async with started(first, other), running(hedged(first, other, ratio=0.5)) as up:
            hedge = up.router.stages[0].attempts.hedge
            assert hedge is not None
            for _ in range(FEWEST):
                hedge.whole.seen(0.001)
            hedge.budget.saved = 1.0
            assert (await up.chat("small")).status_code == 502
        assert (len(first.requests), len(other.requests)) == (1, 1)

    run(main)
