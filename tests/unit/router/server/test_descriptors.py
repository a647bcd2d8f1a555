"""A router with few descriptors serves as many clients as it can, and blames no engine for what it has none of."""

import asyncio
import errno
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.router.server.server import (
    DESCRIPTORS_PER_CLIENT,
    MOST_DESCRIPTORS,
    OWN_DESCRIPTORS,
    clients_of,
)
from cascadia.router.settings.model import Limits
from cascadia.router.upstream.connect_errors import EXHAUSTED
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.pool import Pool
from cascadia.testing.engines import FakeEngine, begin_stream, delta, event, started
from cascadia.testing.routers import run, running, stages, until
from tests.unit.router.server.test_workers import serving

FEW = 256


def test_clients_and_their_engines_fit_into_the_descriptors_that_there_are() -> None:
    for descriptors in (128, 256, 1024, 4096, MOST_DESCRIPTORS):
        assert DESCRIPTORS_PER_CLIENT * clients_of(descriptors) + OWN_DESCRIPTORS <= descriptors
    assert clients_of(MOST_DESCRIPTORS) >= Limits().max_connections
    assert clients_of(0) == 1


@pytest.mark.long
def test_more_streams_than_descriptors_are_refused_and_the_rest_served(tmp_path: Path) -> None:
    async def waits(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await writer.drain()
        await asyncio.wait_for(go.wait(), 60.0)
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    go = asyncio.Event()

    async def main() -> None:
        engine = FakeEngine(answer=waits)
        async with started(engine), serving(tmp_path, engine, 1, FEW) as (_, url, _):
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60.0) as client:
                body = {"model": "small", "stream": True, "messages": [{"role": "user", "content": "q"}]}

                async def streamed() -> str:
                    try:
                        answer = await client.post("/v1/chat/completions", json=body)
                    except httpx.TransportError as error:
                        return type(error).__name__
                    return (
                        str(answer.status_code) if "[DONE]" in answer.text else answer.json()["error"]["code"]
                    )

                asked = [asyncio.create_task(streamed()) for _ in range(3 * clients_of(FEW))]
                await until(lambda: len(engine.requests) >= clients_of(FEW) - 1)
                await until(lambda: sum(task.done() for task in asked) >= len(asked) - len(engine.requests))
                go.set()
                outcomes = Counter(await asyncio.gather(*asked))
                assert outcomes["200"] >= clients_of(FEW) - 1
                # The engine is not blamed: it is ready and asked at once.
                assert await streamed() == "200"
                metrics = (await client.get("/metrics")).text
        assert "cascadia_upstream_errors_total{" not in metrics
        assert 'cascadia_replica_state{replica="small-0",stage="small",state="ready"} 1.0' in metrics

    run(main)


def test_own_exhaustion_is_told_from_an_engine_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kind(number: int) -> str:
        async def refused(*_: Any, **__: Any) -> Any:
            raise OSError(number, "none")

        monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", refused)
        with pytest.raises(UpstreamError) as caught:
            await Pool("http://127.0.0.1:1", 1.0).connect()
        return caught.value.kind

    assert {asyncio.run(kind(number)) for number in EXHAUSTED} == {"exhausted"}
    assert asyncio.run(kind(errno.ECONNREFUSED)) == "refused"


def test_own_exhaustion_opens_no_breaker_and_takes_no_replica_down(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def none_left(_: Pool) -> Any:
        nonlocal asked
        asked += 1
        raise UpstreamError("exhausted", "OSError")

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), breaker_failures=1) as up:
            await up.chat("small")
            with monkeypatch.context() as patched:
                patched.setattr(Pool, "connect", none_left)
                patched.setattr(Pool, "take", lambda _: None)
                refused = [await up.chat("small") for _ in range(3)]
                await until(lambda: asked >= 3 + 5)  # several health checks
            again = await up.chat("small")
        assert {answer.status_code for answer in refused} == {503}
        assert {answer.json()["error"]["code"] for answer in refused} == {"router_exhausted"}
        assert again.status_code == 200

    run(main)
