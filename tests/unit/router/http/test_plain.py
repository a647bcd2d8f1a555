"""The way without a task takes over nothing of what can go wrong: each failure goes on as any other."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import Running, run, running, stages, until
from tests.unit.router.replicas.test_robustness import BAD, patience_s


def after_the_first(bad: Answer) -> Answer:
    """Answers its first request, so that a connection is kept and the next request needs to wait for nothing."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) == 1:
            send(writer, 200, completion("first"))
        else:
            await bad(engine, body, writer)

    return answer


def settled(up: Running) -> bool:
    replicas = [replica for stage in up.router.stages for replica in stage.replicas]
    return up.router.metrics.running == 0 and all(
        replica.running == 0 and replica.outstanding_tokens == 0 for replica in replicas
    )


@pytest.mark.long(in_ci=6)
@pytest.mark.parametrize("how", BAD)
def test_a_failure_on_a_kept_connection_is_answered_by_another_replica(how: str) -> None:
    async def main() -> None:
        bad, good = FakeEngine(answer=after_the_first(BAD[how])), FakeEngine("fine")
        limits = {"first_byte_s": patience_s(how), "idle_s": 0.4 if how == "drips" else 10.0}
        async with started(bad, good), running(stages([bad, good]), **limits) as up:
            answers = [await up.chat("small") for _ in range(10)]
            assert settled(up)
        said = {json.loads(answer.content)["choices"][0]["message"]["content"] for answer in answers}
        assert [answer.status_code for answer in answers] == [200] * 10
        assert said <= {"first", "fine", "mine"}

    run(main)


@pytest.mark.parametrize("how", BAD)
def test_without_another_replica_it_is_a_clean_error(how: str) -> None:
    async def main() -> None:
        bad = FakeEngine(answer=after_the_first(BAD[how]))
        limits = {"first_byte_s": patience_s(how), "queue_s": 0.5, "idle_s": 0.4 if how == "drips" else 10.0}
        async with started(bad), running(stages(bad), **limits) as up:
            first, second = await up.chat("small"), await up.chat("small")
            assert settled(up)
        assert first.status_code == 200
        assert second.status_code == {"hang": 504, "429": 429, "twice": 200, "drips": 504}.get(how, 502)
        assert "choices" in second.json() or set(second.json()["error"]) == {
            "message",
            "type",
            "param",
            "code",
        }

    run(main)


def test_a_client_that_leaves_frees_the_engine_at_once() -> None:
    async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        engine = FakeEngine(answer=after_the_first(hang))
        async with started(engine), running(stages(engine)) as up:
            await up.chat("small")
            engine.arrived.clear()
            asking = asyncio.create_task(up.chat("small"))
            await engine.arrived.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            async with asyncio.timeout(60):
                await engine.left.wait()
            await until(lambda: len(up.lines) == 2 and settled(up))
            assert up.router.stages[0].replicas[0].breaker.failures == 0
        assert [line["status"] for line in up.lines] == [200, 499]

    run(main)


def test_a_body_that_stops_half_way_is_not_waited_for_for_ever() -> None:
    async def half(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
        await engine.left.wait()

    async def main() -> None:
        engine = FakeEngine(answer=after_the_first(half))
        async with started(engine), running(stages(engine), idle_s=0.2) as up:
            await up.chat("small")
            assert (await up.chat("small")).status_code == 504
            assert settled(up)

    run(main)


def test_an_engines_refusal_and_a_deadline_pass_as_ever() -> None:
    async def refuse(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("deadline"):
            await engine.left.wait()
        send(writer, 400, b'{"error": {"message": "no such thing"}}')

    async def main() -> None:
        engine = FakeEngine(answer=after_the_first(refuse))
        async with started(engine), running(stages(engine)) as up:
            await up.chat("small")
            refused = await up.chat("small")
            late = await up.chat("small", deadline=True, deadline_ms=50)
            assert settled(up)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "no such thing")
        assert late.status_code == 504

    run(main)


def test_many_at_once_share_few_connections_and_get_their_own_answers() -> None:
    async def echo(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)
        send(writer, 200 if body["k"] % 5 else 500, completion(str(body["k"])))

    async def main() -> None:
        engines = [FakeEngine(answer=echo) for _ in range(2)]
        async with started(*engines), running(stages(engines), breaker_failures=10**6, max_tries=9) as up:
            for _ in range(5):
                answers = await asyncio.gather(*(up.chat("small", k=k) for k in range(40)))
                for k, answer in enumerate(answers):
                    if answer.status_code == 200:
                        assert answer.json()["choices"][0]["message"]["content"] == str(k)
                    else:
                        assert k % 5 == 0
            assert settled(up)

    run(main)
