"""Nothing that an engine or a client does takes the router down, and what can be answered is. Over real sockets."""

import asyncio
import json
import random
import socket
from dataclasses import replace
from typing import Any

import httpx
import pytest

from cascadia.clients.processes.ports import listen
from cascadia.router.settings.model import ReplicaSettings, RouterSettings
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until


async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    await engine.left.wait()


async def reset(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def garbage(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01 this is no HTTP\r\n\r\n")


async def truncated(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, completion("half")[:40])


async def cut(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
    await writer.drain()
    writer.close()


async def html(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, b"<html>somebody else's service</html>", "text/html")


async def foreign(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 404, b"not found", "text/plain")


async def empty(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, b'{"choices": []}')


async def endless(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000 + b"\r\n")


async def drips(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """A byte at a time, of an answer that is never whole."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    while not engine.left.is_set():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def twice(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 200, completion("mine"))
    send(writer, 200, completion("smuggled"))


def status(code: int) -> Answer:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, code, b'{"error": {"message": "no"}}')

    return answer


BAD = {
    "hang": hang,
    "reset": reset,
    "garbage": garbage,
    "truncated": truncated,
    "cut": cut,
    "html": html,
    "foreign": foreign,
    "empty": empty,
    "endless": endless,
    "drips": drips,
} | {str(code): status(code) for code in (301, 401, 404, 429, 500, 503)}


def patience_s(how: str) -> float:
    """Long, but where it is what ends the wait."""
    return 0.4 if how == "hang" else 10.0


def silence_s(how: str) -> float:
    """As `patience_s`, of an answer that has begun."""
    return 0.4 if how == "drips" else 10.0


@pytest.mark.long(in_ci=6)
@pytest.mark.parametrize("how", BAD)
def test_another_replica_answers_where_one_fails_before_the_first_byte(how: str) -> None:
    async def main() -> None:
        bad, good = FakeEngine(answer=BAD[how]), FakeEngine("fine")
        limits = {"first_byte_s": patience_s(how), "idle_s": silence_s(how)}
        async with started(bad, good), running(stages([bad, good]), **limits) as up:
            answers = [await up.chat("small", stream=stream) for stream in (False, True) * 4]
        assert [answer.status_code for answer in answers] == [200] * 8
        assert bad.requests
        assert answers[0].json()["choices"][0]["message"]["content"] == "fine"

    run(main)


@pytest.mark.long(in_ci=6)
@pytest.mark.parametrize("how", BAD)
def test_a_failure_without_another_replica_is_a_clean_error_of_openais(how: str) -> None:
    async def main() -> None:
        bad = FakeEngine(answer=BAD[how])
        limits = {"first_byte_s": patience_s(how), "queue_s": 0.5, "idle_s": silence_s(how)}
        async with started(bad), running(stages(bad), **limits) as up:
            answers = [await up.chat("small", stream=stream) for stream in (False, True)]
        for answer in answers:
            expected = {"hang": (504,), "429": (429,), "drips": (502, 504)}.get(how, (502,))
            assert answer.status_code in expected
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        if how == "429":
            assert int(answers[0].headers["retry-after"]) >= 1

    run(main)


def test_a_second_answer_to_one_request_never_reaches_the_next_client() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=twice)
        async with started(engine), running(stages(engine)) as up:
            answers = [await up.chat("small") for _ in range(6)]
        said = [a.json()["choices"][0]["message"]["content"] for a in answers if a.status_code == 200]
        assert "smuggled" not in said

    run(main)


def test_a_stream_that_is_cut_ends_with_an_error_event_and_is_not_retried() -> None:
    async def cut_stream(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await writer.drain()
        await asyncio.sleep(0)
        writer.close()

    async def main() -> None:
        bad = FakeEngine(answer=cut_stream)
        async with started(bad), running(stages([bad, bad])) as up:
            answer = await up.chat("small", stream=True)
        lines = [line for line in answer.text.splitlines() if line]
        assert json.loads(lines[0][6:])["choices"][0]["delta"]["content"] == "a"
        assert json.loads(lines[-1][6:])["error"]["code"] == "stage_failed"
        assert len(bad.requests) == 1

    run(main)


def test_a_stream_that_falls_silent_ends_with_an_error_event() -> None:
    async def silent(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await engine.left.wait()

    async def main() -> None:
        engine = FakeEngine(answer=silent)
        async with started(engine), running(stages(engine), idle_s=0.1) as up:
            answer = await up.chat("small", stream=True)
        assert "stage_timeout" not in answer.text.splitlines()[0]
        assert json.loads(answer.text.strip().splitlines()[-1][6:])["error"]["code"] == "stage_timeout"

    run(main)


def test_a_client_that_does_not_read_slows_its_engine_and_loses_nothing() -> None:
    parts, size, sent = 600, 100_000, [0]

    async def much(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for _ in range(parts):
            event(writer, "x" * size)
            await writer.drain()
            sent[0] += size
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=much)
        async with started(engine), running(stages(engine)) as up:
            reader, writer = await asyncio.open_connection("127.0.0.1", up.port, limit=1024)
            body = b'{"model": "small", "stream": true}'
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await engine.arrived.wait()
            (connection,) = (c for c in up.router.stages[0].replicas[0].pool.open if c.busy)
            await until(lambda: connection._paused)
            held = connection.body.unread_bytes
            assert sent[0] < parts * size
            received = 0
            while data := await reader.read(1 << 20):
                received += len(data)
            writer.close()
        assert held < 1_000_000
        assert received > parts * size

    run(main)


def test_a_connection_that_the_engine_dropped_while_idle_costs_nothing() -> None:
    async def once(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, completion("a"))
        await writer.drain()
        writer.close()

    async def main() -> None:
        engine = FakeEngine(answer=once)
        async with started(engine), running(stages(engine)) as up:
            answers = [await up.chat("small") for _ in range(10)]
            breaker = up.router.stages[0].replicas[0].breaker
        assert [answer.status_code for answer in answers] == [200] * 10
        assert breaker.failures == 0

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_upstream(stream: bool) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=hang)
        async with started(engine), running(stages(engine)) as up:
            for model in ("small", "cascadia"):
                engine.arrived.clear()
                engine.left.clear()
                asking = asyncio.create_task(up.chat(model, stream=stream))
                await engine.arrived.wait()
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                async with asyncio.timeout(60):
                    await engine.left.wait()
                replica = up.router.stages[0].replicas[0]
                await until(lambda r=replica: r.running == 0 and r.outstanding_tokens == 0)
            await until(lambda: len(up.lines) == 2)
            assert replica.breaker.failures == 0
        assert [line["status"] for line in up.lines] == [499, 499]

    run(main)


def test_a_full_queue_answers_429_and_the_others_are_served_in_turn() -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion(str(body["k"])))

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with started(engine):
            (stage,) = stages(engine)
            stage = replace(stage, replicas=(ReplicaSettings(engine.url, max_concurrency=1),))
            async with running((stage,), max_queue=3) as up:
                asking = []
                for k in range(4):
                    asking.append(asyncio.create_task(up.chat("small", k=k)))
                    await until(
                        lambda k=k: len(engine.requests) + len(up.router.stages[0].wait_queue) == k + 1
                    )
                refused = await up.chat("small")
                leaving = asking.pop(2)
                leaving.cancel()
                await until(lambda: len(up.router.stages[0].wait_queue) == 2)
                go.set()
                answers = await asyncio.gather(*asking)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert [a.status_code for a in answers] == [200] * 3
        assert [request["k"] for request in engine.requests] == [0, 1, 3]

    run(main)


def test_requests_wait_for_a_replica_that_is_starting_and_fail_fast_where_none_is() -> None:
    async def main() -> None:
        engine = FakeEngine("up")
        async with started(engine), running(stages(engine)) as up:
            replica = up.router.stages[0].replicas[0]
            engine.healthy = False
            await until(lambda: replica.state == "down")
            down = await up.chat("small")
            assert down.status_code == 503
            assert int(down.headers["retry-after"]) >= 1
            assert (await up.client.get("/ready")).status_code == 503
            assert (await up.client.get("/health")).status_code == 200
            replica.state = "starting"
            asking = asyncio.create_task(up.chat("small"))
            await until(lambda: len(up.router.stages[0].wait_queue) == 1)
            engine.healthy = True
            assert (await asking).status_code == 200

    run(main)


def test_a_hung_replica_is_found_by_its_health_and_its_requests_move_on() -> None:
    async def main() -> None:
        hung, good = FakeEngine(answer=hang), FakeEngine("fine")
        async with started(hung, good), running(stages([hung, good])) as up:
            asking = [asyncio.create_task(up.chat("small")) for _ in range(8)]
            await hung.arrived.wait()
            hung.healthy = False
            answers = await asyncio.gather(*asking)
        assert [a.status_code for a in answers] == [200] * 8

    run(main)


@pytest.mark.parametrize("found_by", ["health", "silence"])
def test_a_held_stream_whose_engine_falls_silent_moves_on_though_its_head_has_come(found_by: str) -> None:
    async def begins(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await writer.drain()
        await engine.left.wait()

    async def main() -> None:
        hung, good, large = FakeEngine(answer=begins), FakeEngine("fine"), FakeEngine("large")
        async with started(hung, good, large):
            both = stages([hung, good], large, thresholds=(50,))
            gate = ScriptedGate({"fine": 90.0})
            idle_s = 60.0 if found_by == "health" else 0.2
            async with running(both, gate, idle_s=idle_s) as up:
                asking = [asyncio.create_task(up.chat(stream=True)) for _ in range(8)]
                await hung.arrived.wait()
                if found_by == "health":
                    hung.healthy = False
                answers = await asyncio.gather(*asking)
        assert [a.headers["x-cascadia-stage"] for a in answers] == ["small"] * 8

    run(main)


def test_two_routers_may_share_a_port_where_both_say_so() -> None:
    first = listen("127.0.0.1", 0, reuse_port=True)
    port = first.getsockname()[1]
    second = listen("127.0.0.1", port, reuse_port=True)
    with pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", port)
    first.close()
    second.close()


def test_embeddings_and_responses_pass_to_a_stage_unchanged_and_embeddings_not_to_the_cascade() -> None:
    answers = {
        "/v1/embeddings": b'{"data":[{"embedding":[0.1, 2e-3]}],"usage":{"prompt_tokens":4,"total_tokens":4}}',
        "/v1/responses": b'{"output":[{"type":"message"}],"usage":{"input_tokens":4,"output_tokens":2}}',
    }
    events = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'

    async def either(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("stream"):
            send(writer, 200, events, "text/event-stream")
        else:
            send(writer, 200, answers[body["path"]])

    async def main() -> None:
        engine = FakeEngine(answer=either)
        async with started(engine), running(stages(engine)) as up:
            for path, expected in answers.items():
                request = {"model": "small", "input": "text", "path": path}
                answer = await up.client.post(path, json=request)
                assert answer.content == expected
                assert f"POST {path} " in engine.heads[-1]
            request = {"model": "cascadia", "input": "text"}
            refused = await up.client.post("/v1/embeddings", json=request)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_cascaded")
            request = {"model": "small", "input": "text", "stream": True}
            assert (await up.client.post("/v1/responses", json=request)).content == events
            metrics = (await up.client.get("/metrics")).text
        assert 'cascadia_stage_tokens_total{direction="input",stage="small"} 8.0' in metrics

    run(main)


def test_an_embedding_is_no_stream_whatever_its_client_says_and_no_failure_of_its_engine() -> None:
    found = b'{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}'

    async def embeds(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, found)

    async def main() -> None:
        engine = FakeEngine(answer=embeds)
        async with started(engine), running(stages(engine)) as up:
            request = {"model": "small", "input": "text", "stream": True}
            answer = await up.client.post("/v1/embeddings", json=request)
            assert up.router.stages[0].replicas[0].breaker.failures == 0
        assert (answer.status_code, answer.content) == (200, found)

    run(main)


def test_replicas_get_their_planned_share() -> None:
    async def main() -> None:
        larger, smaller = FakeEngine(), FakeEngine()
        async with started(larger, smaller):
            (stage,) = stages([larger, smaller])
            shares = tuple(replace(r, share=s) for r, s in zip(stage.replicas, (0.75, 0.25), strict=True))
            async with running((replace(stage, replicas=shares, balancing="round-robin"),)) as up:
                for _ in range(20):
                    await up.chat("small")
        assert (len(larger.requests), len(smaller.requests)) == (15, 5)

    run(main)


def test_all_turns_of_a_conversation_go_to_the_replica_that_has_its_beginning() -> None:
    async def main() -> None:
        engines = [FakeEngine() for _ in range(3)]
        async with started(*engines):
            (stage,) = stages(engines)
            async with running((replace(stage, balancing="prefix"),)) as up:
                for conversation in range(12):
                    said = [{"role": "user", "content": f"conversation {conversation}"}]
                    for turn in range(3):
                        await up.chat("small", messages=said, user=str(conversation))
                        said = [
                            *said,
                            {"role": "assistant", "content": "a"},
                            {"role": "user", "content": str(turn)},
                        ]
        seen = [{request["user"] for request in engine.requests} for engine in engines]
        assert sum(map(len, seen)) == 12
        assert all(seen)

    run(main)


def test_the_breaker_opens_for_failures_and_closes_after_a_probe() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=status(500))
        limits = {"breaker_failures": 3, "breaker_first_s": 0.05}
        async with started(engine), running(stages(engine), **limits) as up:
            for _ in range(3):
                assert (await up.chat("small")).status_code == 502
            # A busy machine may let the first pauses pass; each is twice as long as the one before.
            async with asyncio.timeout(60):
                while (told := (await up.chat("small")).status_code) != 503:
                    assert told == 502
            asked = len(engine.requests)
            engine.answer = None
            await until(lambda: up.router.stages[0].ready)
            assert (await up.chat("small")).status_code == 200
            assert len(engine.requests) == asked + 1
            assert up.router.stages[0].replicas[0].breaker.closed

    run(main)


def test_retries_stop_where_their_budget_is_spent() -> None:
    async def main() -> None:
        engines = [FakeEngine(answer=status(500)) for _ in range(3)]
        async with started(*engines), running(stages(engines), breaker_failures=1000) as up:
            for _ in range(40):
                assert (await up.chat("small")).status_code == 502
        sent = sum(len(engine.requests) for engine in engines)
        assert sent <= 40 + 10 + 0.2 * 40

    run(main)


def test_a_drain_finishes_what_runs_and_takes_nothing_new() -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion("done"))

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with started(engine), running(stages(engine)) as up:
            asking = asyncio.create_task(up.chat("small"))
            await engine.arrived.wait()
            up.server.stop()
            assert not up.router.ready

            async def refused() -> bool:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", up.port)
                except ConnectionRefusedError:
                    return True
                except ConnectionResetError:
                    return False
                writer.close()
                return False

            async with asyncio.timeout(60):
                while not await refused():
                    await asyncio.sleep(0.01)
            go.set()
            assert (await asking).status_code == 200

    run(main)


def test_while_its_end_is_announced_a_router_answers_and_sends_clients_elsewhere() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), drain_notice_s=60.0) as up:
            before = await up.chat("small")
            up.server.stop()
            ready = await up.client.get("/ready")
            after = [await up.chat("small", stream=stream) for stream in (False, True)]
        assert "connection" not in before.headers
        assert ready.status_code == 503
        assert ready.json()["draining"] is True
        assert [answer.status_code for answer in after] == [200, 200]
        assert [answer.headers["connection"] for answer in after] == ["close", "close"]

    run(main)


async def raw(port: int, content: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000, 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", 408),
        (b"", 408),
        (b"nonsense\r\n\r\n", 400),
        (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n"
            b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
            400,
        ),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx: a\nb: c\r\n\x00: d\r\n\r\n", 400),
    ],
)
def test_what_is_no_proper_request_is_refused_and_its_connection_closed(
    content: bytes, expected: int
) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), head_s=1.0) as up:
            answer = await raw(up.port, content)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {expected} ".encode())
        assert "error" in json.loads(body)

    run(main)


def test_a_body_that_drips_is_cut_off_and_a_large_one_refused() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), body_s=0.5, max_body_bytes=1000) as up:
            head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n{"
            assert await raw(up.port, head) == b""
            large = await up.chat("small", text="x" * 2000)
            chunks = (b"x" * 300 for _ in range(9))

            async def parts() -> Any:
                for chunk in chunks:
                    yield chunk

            chunked = await up.client.post("/v1/completions", content=parts())
        assert large.status_code == chunked.status_code == 413

    run(main)


def test_both_sides_send_without_waiting_to_fill_packets() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            await up.chat("small")
            (connection, *_) = up.router.stages[0].replicas[0].pool.open
            upstream = connection.transport.get_extra_info("socket")
            (served, *_) = up.server.connections
            downstream = served.transport.get_extra_info("socket")
            for end in (upstream, downstream):
                assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main)


def test_clients_mistakes_are_told_in_openais_form() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            cases: list[tuple[httpx.Response, int]] = [
                (await up.client.post("/v1/chat/completions", content=b"{"), 400),
                (await up.client.post("/v1/chat/completions", content=b"[]"), 400),
                (await up.client.post("/v1/chat/completions", content=b"\xff\xfe"), 400),
                (await up.client.post("/v1/chat/completions", json={"messages": []}), 400),
                (await up.client.post("/v1/chat/completions", content=b'{"model": "' + b"[" * 100_000), 400),
                (await up.chat("gpt-4"), 404),
                (await up.client.get("/v1/chat/completions"), 405),
                (await up.client.get("/nothing"), 404),
                (await up.client.get("/v1/models/none"), 404),
                (await up.client.delete("/health"), 405),
            ]
            models = (await up.client.get("/v1/models")).json()
            described = (await up.client.get("/openapi.json")).json()
            version = (await up.client.get("/version")).json()
        for answer, expected in cases:
            assert answer.status_code == expected
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert [m["id"] for m in models["data"]] == ["cascadia", "small"]
        assert "/v1/chat/completions" in described["paths"]
        assert set(version) == {"version"}
        assert engine.requests == []

    run(main)


@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_no_damaged_body_is_a_failure_of_ours(model: str) -> None:
    whole = {
        "model": model,
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "n": 1,
        "tools": [],
    }
    seed = json.dumps(whole | {"max_stage": "small", "deadline_ms": 9000, "logprobs": True}).encode()
    rng = random.Random(7)

    def damaged() -> bytes:
        body = bytearray(seed)
        for _ in range(rng.randint(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        return bytes(body)

    async def main() -> None:
        small, large = FakeEngine(), FakeEngine()
        async with started(small, large), running(stages(small, large, thresholds=(101,))) as up:
            for _ in range(150):
                answer = await up.client.post("/v1/chat/completions", content=damaged())
                assert answer.status_code < 500, answer.text

    run(main)


def test_the_clients_key_goes_no_further_and_the_engines_own_is_sent() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            (stage,) = stages(engine)
            stage = replace(stage, replicas=(ReplicaSettings(engine.url, api_key="engine-key"),))
            settings = RouterSettings((stage,), None, health=QUICK)
            async with running(settings) as up:
                headers = {"authorization": "Bearer client-key", "x-request-id": "id-7", "cookie": "c"}
                answer = await up.chat("small", headers=headers)
                ready = (await up.client.get("/ready")).text
        (head,) = engine.heads
        assert "authorization: Bearer engine-key" in head
        assert "client-key" not in head
        assert "cookie" not in head
        assert "x-request-id: id-7" in head
        assert answer.headers["x-request-id"] == "id-7"
        assert "engine-key" not in ready + json.dumps(up.lines)

    run(main)


def test_a_log_that_cannot_be_written_loses_lines_and_nothing_else() -> None:
    def full(content: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            up.router.journal._write = full
            assert (await up.chat("small")).status_code == 200
            up.router.journal.flush()
            metrics = (await up.client.get("/metrics")).text
        assert "cascadia_log_failures_total 1.0" in metrics

    run(main)


def lacking(paths: tuple[str, ...] = (), known: str = "") -> Answer:
    """404 at `paths`, and for an earlier response other than `known`; else as usual."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        path = engine.heads[-1].split()[1]
        if path in paths or body.get("previous_response_id", known) != known:
            send(writer, 404, b'{"error": {"message": "not found", "code": 404}}')
        else:
            send(writer, 200, completion(engine.text))

    return answer


async def filtered(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """A filter in front of an API, an account without credit, and what is larger than the router takes: by request."""
    asked = body.get("user")
    if asked in ("402", "403"):
        send(writer, int(asked), b'{"error": {"message": "no"}}')
    else:
        send(writer, 200, completion("x" * 50_000 if asked == "large" else engine.text))


@pytest.mark.parametrize("asked", ["403", "large"])
def test_what_one_client_asks_for_opens_no_breaker(asked: str) -> None:
    async def main() -> None:
        small, large = FakeEngine("s", answer=filtered), FakeEngine("l")
        gate = ScriptedGate({"s": 90.0})
        limits = {"max_answer_bytes": 20_000}
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), gate, **limits) as up,
        ):
            for _ in range(10):
                assert (await up.chat("small", user=asked)).status_code == 502
                assert (await up.chat(user=asked)).headers["x-cascadia-stage"] == "large"
            assert up.router.stages[0].replicas[0].breaker.closed
            assert (await up.chat("small")).status_code == 200
            assert (await up.chat()).headers["x-cascadia-stage"] == "small"

    run(main)


def test_an_account_without_credit_is_not_the_clients_mistake() -> None:
    async def main() -> None:
        small, large = FakeEngine("s", answer=filtered), FakeEngine("l")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), ScriptedGate({})) as up,
        ):
            assert (await up.chat(user="402")).headers["x-cascadia-stage"] == "large"
            assert (await up.chat("small", user="402")).status_code == 502

    run(main)


def test_an_api_that_engines_never_had_is_the_clients_mistake_and_takes_nobody_out() -> None:
    async def main() -> None:
        one, two = (FakeEngine(name, answer=lacking(("/v1/embeddings",))) for name in "ab")
        async with started(one, two), running(stages([one, two])) as up:
            for _ in range(8):
                assert (await up.chat("small")).status_code == 200
            replicas = up.router.stages[0].replicas
            assert all(replica.served for replica in replicas)
            for _ in range(20):
                answer = await up.client.post("/v1/embeddings", json={"model": "small", "input": "x"})
                assert (answer.status_code, answer.json()["error"]["message"]) == (404, "not found")
            assert all(replica.breaker.closed for replica in replicas)
            assert len(one.requests) + len(two.requests) == 8 + 2 * 20
            # At a path where it has done well before, something else has its port.
            one.answer = two.answer = lacking(("/v1/chat/completions",))
            for _ in range(10):
                assert (await up.chat("small")).status_code in (502, 503)
            assert not any(replica.breaker.closed for replica in replicas)

    run(main)


def test_what_one_engine_keeps_is_looked_for_at_each_replica() -> None:
    async def main() -> None:
        engines = [FakeEngine(known, answer=lacking(known=known)) for known in "abcde"]
        async with started(*engines), running(stages(engines)) as up:
            for known in "abcde" * 4:
                body = {"model": "small", "input": "x", "previous_response_id": known}
                answer = await up.client.post("/v1/responses", json=body)
                assert answer.json()["choices"][0]["message"]["content"] == known
            for _ in range(10):
                answer = await up.client.post(
                    "/v1/responses", json={"model": "small", "input": "x", "previous_response_id": "lost"}
                )
                assert answer.status_code == 404
            assert all(replica.breaker.closed for replica in up.router.stages[0].replicas)

    run(main)


def test_a_stage_whose_engines_lack_the_api_is_passed_over_by_the_cascade() -> None:
    async def main() -> None:
        small, large = FakeEngine("s", answer=lacking(("/v1/completions",))), FakeEngine("l")
        gate = ScriptedGate({"s": 90.0})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            assert (await up.chat()).headers["x-cascadia-stage"] == "small"
            large.answer = lacking()
            answer = await up.client.post("/v1/completions", json={"model": "cascadia", "prompt": "x"})
            assert answer.headers["x-cascadia-stage"] == "large"
            assert up.router.stages[0].replicas[0].breaker.closed

    run(main)
