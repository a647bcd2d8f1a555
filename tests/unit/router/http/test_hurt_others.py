"""What has hurt other routers, where no other test says that it does not hurt this one.

docs/reference/reliability.md has the whole list, with the test for each.
"""

import asyncio
import gc
import json
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.dispatch.prefix_affinity import PrefixAffinity, point_of
from cascadia.router.cascade.decision import Ask
from cascadia.router.http.connection import ClientConnection
from cascadia.router.http.exchange import Exchange
from cascadia.router.replicas.attempts import Begun
from cascadia.router.replicas.breaker import Breaker
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.results import Live
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import Health, Limits, ReplicaSettings, StageSettings
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.pool import Pool
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import ScriptedGate, run, running, stages, until


@pytest.fixture(autouse=True, scope="module")
def what_was_there_before_is_not_looked_through() -> None:
    """Other tests leave a million objects in this process; those that are counted here are younger."""
    gc.collect()
    gc.freeze()


EVENTS = st.lists(st.sampled_from(["begin", "succeed", "fail", "abandon", "wait"]), max_size=60)


@given(EVENTS, st.integers(1, 4))
def test_a_breaker_is_never_stuck_whatever_becomes_of_its_probes(events: list[str], limit: int) -> None:
    breaker, now_s, under_way = Breaker(limit, 1.0, 8.0), 0.0, []
    for event in events:
        if event == "wait":
            now_s += 0.7
        elif event == "begin":
            if breaker.allows(now_s):
                under_way.append(breaker.begin())
        elif under_way:
            probe = under_way.pop(0)
            if event == "succeed":
                breaker.succeeded()
            elif event == "fail":
                breaker.failed(now_s, probe)
            else:
                breaker.abandoned(probe)
    for probe in under_way:
        breaker.abandoned(probe)
    assert breaker.allows(now_s + 8.0)


def test_a_router_starts_while_replicas_are_down_and_takes_them_in_when_they_come() -> None:
    async def main() -> None:
        there, late = FakeEngine("there"), FakeEngine("late")
        async with started(there, late):
            settings = stages([there, late])
            await late.stop()
            async with running(settings, all_ready=False) as up:
                states = [replica.state for replica in up.router.stages[0].replicas]
                answers = [await up.chat("small") for _ in range(5)]
                assert (await up.client.get("/ready")).status_code == 200
                await late.start()
                await until(lambda: up.router.stages[0].replicas[1].state == "ready")
                async with asyncio.timeout(60):
                    while not late.requests:
                        assert (await up.chat("small")).status_code == 200
        assert states == ["ready", "starting"]
        assert [answer.status_code for answer in answers] == [200] * 5

    run(main)


def test_no_prefix_is_remembered_however_many_there_are() -> None:
    balancer = PrefixAffinity()
    replicas = [Replica(f"r-{i}", ReplicaSettings("http://h:1"), Limits()) for i in range(3)]
    balancer.choose(replicas, 10, point_of(b"first"))
    size = len(balancer._ring)
    for k in range(2000):
        balancer.choose(replicas, 10, point_of(b"%d" % k))
    assert (len(balancer._ring), len(balancer._latest)) == (size, 3)


def test_requests_of_all_kinds_leave_nothing_behind() -> None:
    async def sometimes(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if len(engine.requests) % 5 == 0:
            writer.transport.abort()
        elif len(engine.requests) % 7 == 0:
            send(writer, 500, b"{}")
        else:
            engine.answer = None
            send(writer, 400, b'{"error": {"message": "no"}}')
        engine.answer = sometimes

    async def main() -> None:
        small, odd, large = FakeEngine("weak"), FakeEngine(answer=sometimes), FakeEngine("strong")
        async with started(small, odd, large):
            settings = stages([small, odd], large, thresholds=(50,))
            async with running(settings, ScriptedGate({"weak": 10.0}), breaker_failures=1000) as up:

                async def ask(k: int) -> None:
                    asking = asyncio.create_task(
                        up.chat(("small", "cascadia", "gpt-4")[k % 3], stream=k % 2 == 0)
                    )
                    if k % 11 == 0:
                        await asyncio.sleep(0)
                        asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)

                async def many(count: int, most: int) -> int:
                    """Tasks that are left, at `most` so many."""
                    for begin in range(0, count, 20):
                        await asyncio.gather(*(ask(k) for k in range(begin, begin + 20)))
                    replicas = [r for s in up.router.stages for r in s.replicas]
                    await until(lambda: all(r.running == 0 for r in replicas))
                    await until(lambda: up.router.metrics.running == 0)
                    await until(lambda: all(r.outstanding_tokens == 0 for r in replicas))
                    await until(lambda: all(len(r.pool.open) <= 40 for r in replicas))
                    await until(lambda: len(asyncio.all_tasks()) <= most)
                    return len(asyncio.all_tasks())

                before = await many(100, 120)
                await many(300, before + 25)

    run(main)


@pytest.mark.long
def test_a_closed_connection_is_gone_without_a_collection_of_garbage() -> None:
    """Cycles wait for one, and what waits is memory that grows with the clients that leave."""

    def kept() -> int:
        return sum(isinstance(each, ClientConnection | Connection) for each in gc.get_objects())

    async def main() -> None:
        engine = FakeEngine("s")
        async with started(engine), running(stages(engine)) as up:
            body = b'{"model": "small", "messages": []}'
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
            await up.chat("small")
            gc.collect()
            gc.disable()
            try:
                before = kept()
                for _ in range(20):
                    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
                    writer.write(head + body)
                    await reader.readuntil(b"}]")
                    writer.close()
                    up.router.stages[0].replicas[0].pool.close()
                await until(lambda: not up.router.stages[0].replicas[0].pool.open)
                await until(lambda: len(up.server.connections) <= 1)
                await until(lambda: kept() <= before)
            finally:
                gc.enable()

    run(main)


@pytest.mark.parametrize("turns", [None, 0, 1, 2, 3, 4, 5])
def test_a_connection_that_is_refused_or_given_up_is_gone_without_a_collection_of_garbage(
    turns: int | None,
) -> None:
    """`turns` of the event loop after it was begun it is given up; None: nobody listens there."""

    def kept() -> int:
        return sum(isinstance(each, Connection) for each in gc.get_objects())

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            pool = Pool(engine.url, 5.0)
            if turns is None:
                await engine.stop()
            gc.collect()
            before = kept()
            gc.disable()
            try:
                for _ in range(20):
                    asked = asyncio.create_task(pool.connect())
                    for _ in range(turns or 0):
                        await asyncio.sleep(0)
                    if turns is not None:
                        asked.cancel()
                    await asyncio.gather(asked, return_exceptions=True)
                    del asked
                pool.close()
                await until(lambda: not pool.open)
                await until(lambda: kept() <= before)
            finally:
                gc.enable()

    run(main)


async def _reset(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _wrong(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, b'{"a":"' + b"a" * 100_000 + b'"}')


async def _broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 500, b"{}")


async def _busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 429, b"{}", more="retry-after: 0\r\n")


async def _endless(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """A stream without its end."""
    send(writer, 200, b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', "text/event-stream")


@pytest.mark.long(in_ci=8)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("answer", [_reset, _wrong, _broken, _busy, _endless])
def test_a_request_that_fails_leaves_nothing_for_a_collection_of_garbage(
    answer: Any, model: str, stream: bool
) -> None:
    """An error that is kept holds all frames on its way, with the bodies of request and answer, and they it: 50 MB
    were left of each request of 16 MiB, up to the next collection."""

    def kept() -> int:
        return sum(isinstance(each, Begun | Ask | Live | Exchange) for each in gc.get_objects())

    async def main() -> None:
        engines = FakeEngine(answer=answer), FakeEngine(answer=answer)
        limits: dict[str, Any] = {"breaker_failures": 10**9, "queue_s": 0.01}
        async with (
            started(*engines),
            running(stages(*engines, thresholds=(50,)), ScriptedGate({}), **limits) as up,
        ):
            await up.chat(model, stream=stream)
            gc.collect()
            gc.disable()
            try:
                before = kept()
                for _ in range(5):
                    await up.chat(model, stream=stream)
                await until(lambda: kept() <= before)
            finally:
                gc.enable()

    run(main)


def test_calls_are_capped_however_much_fails() -> None:
    async def broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        groups = [[FakeEngine(answer=broken) for _ in range(5)] for _ in range(3)]
        every = [engine for group in groups for engine in group]
        async with started(*every):
            settings = stages(*groups, thresholds=(50, 50))
            async with running(settings, ScriptedGate({}), breaker_failures=1000) as up:
                answer = await up.chat()
        assert answer.status_code == 502
        assert sum(len(engine.requests) for engine in every) == 3 * 3

    run(main)


NESTED = {
    "type": "object",
    "$defs": {"node": {"anyOf": [{"type": "null"}, {"properties": {"next": {"$ref": "#/$defs/node"}}}]}},
    "properties": {
        "tree": {"$ref": "#/$defs/node"},
        "rows": {"type": "array", "items": {"type": "array", "prefixItems": [{"type": "number"}, True]}},
        "either": {"oneOf": [{"const": 1}, {"enum": ["a", None, 2.5]}], "default": None},
    },
    "additionalProperties": {"type": ["string", "integer"]},
    "x-vendor": {"anything": [[[{}]]]},
}  # fmt: skip


@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_tool_schemas_of_any_shape_reach_the_engine_unchanged(model: str) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            tools = [{"type": "function", "function": {"name": "f", "strict": None, "parameters": NESTED}}]
            answer = await up.chat(
                model, tools=tools, tool_choice={"type": "function", "function": {"name": "f"}}
            )
            assert answer.status_code == 200
        assert engine.requests[0]["tools"] == tools

    run(main)


def test_nothing_is_asked_of_the_environment_at_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import cascadia.router.server.app, cascadia.cli.main"],
        env={},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", [Limits, Health])
def test_no_number_of_the_configuration_is_ignored(kind: type[Limits] | type[Health], tmp_path: Any) -> None:
    section = kind.__name__.lower()
    given = {field.name: type(field.default)(field.default + 3) for field in fields(kind)}
    path = tmp_path / "router.yaml"
    stage = {"name": "small", "replicas": [{"url": "http://h:1"}]}
    path.write_text(json.dumps({"stages": [stage], section: given}))
    found = getattr(read_settings(path), section)
    assert {name: getattr(found, name) for name in given} == given


def test_no_key_of_a_stage_is_ignored(tmp_path: Any) -> None:
    given = {
        "name": "small", "model": "m", "threshold": 7, "max_model_len": 9, "balancing": "prefix",
        "hedge": {"quantile": 0.9, "ratio": 0.2}, "passes_priority": True, "cost": 2.0,
    }  # fmt: skip
    replica = {"url": "http://h:1", "share": 2, "max_concurrency": 3, "health_path": "/up", "resolve": "dns"}
    conversations = {"start": "sticky", "kept": 5, "kept_s": 6}
    path = tmp_path / "router.yaml"
    path.write_text(
        json.dumps(
            {
                "stages": [given | {"replicas": [replica]}],
                "conversations": conversations,
                "judge": {"kind": "certainty"},
            }
        )
    )
    settings = read_settings(path)
    (stage,) = settings.stages
    plain = StageSettings("other", "other", ())
    assert [name for name in given if getattr(stage, name) == getattr(plain, name)] == []
    one = stage.replicas[0]
    assert (one.share, one.max_concurrency, one.health_path, one.resolve) == (2.0, 3, "/up", "dns")
    assert (settings.conversations.start, settings.conversations.kept) == ("sticky", 5)
