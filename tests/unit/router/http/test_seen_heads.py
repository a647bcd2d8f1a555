"""A head that comes again over its connection is not parsed again, and nothing that it says is taken for another's."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import Key, KeyLimits, Keyring, make_key
from cascadia.router.http import parser
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.router.upstream.connection import Connection
from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.routers import QUICK, run, running, stages
from tests.unit.router.http.test_protocol import BODY, HEALTH, Client, post


async def echo(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Answers with the body's `k`, now and then in an odd way."""
    k = body["k"]
    if body.get("stream"):
        stream(writer, str(k), body)
        return
    await asyncio.sleep(0)
    content = completion(f"{k} " + "x" * (k % 7) * 500)
    if k % 5 == 1:
        half = len(content) // 2
        writer.write(
            b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for part in (content[:half], content[half:]):
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")
    elif k % 5 == 2:
        send(writer, 200, content, more=f"date: {k}\r\n")
    else:
        send(writer, 200, content)


def asked(k: int, rng: random.Random) -> bytes:
    """A request of one of several kinds."""
    body: dict[str, Any] = {"model": "small", "k": k, "messages": [], "user": "u" * rng.choice((0, 5, 3000))}
    if k % 6 == 5:
        body["stream"] = True
    content = json.dumps(body).encode()
    match rng.randrange(8):
        case 0:
            return post(content, more=b"x-request-id: id-%d\r\n" % k)
        case 1:
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
        case 2:
            return HEALTH + post(content)
        case 3:
            return post(content, more=b"x-note: %d\r\n" % rng.randrange(2))
    return post(content)


@pytest.mark.parametrize("seed", range(12))
def test_however_requests_are_cut_each_has_its_own_answer(seed: int) -> None:
    rng = random.Random(seed)
    count = 40
    requests = [asked(k, rng) for k in range(count)]

    async def main() -> None:
        engine = FakeEngine(answer=echo)
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)

            async def writes() -> None:
                for k, request in enumerate(requests):
                    cuts = sorted(rng.sample(range(1, len(request)), rng.choice((0, 0, 1, 3))))
                    for begin, end in zip([0, *cuts], [*cuts, len(request)], strict=True):
                        client.write(request[begin:end])
                        if rng.random() < 0.7:
                            await asyncio.sleep(0.001)
                    while rng.random() < 0.8 and len(found) <= k:
                        await asyncio.sleep(0.001)

            found: list[str] = []
            writing = asyncio.create_task(writes())
            while len(found) < count:
                status, _, body = await client.answer()
                assert status == 200
                if b'"choices"' not in body:
                    continue
                if body.startswith(b"data:"):
                    events = [
                        json.loads(line[6:]) for line in body.split(b"\n\n") if line.startswith(b"data: {")
                    ]
                    found.append("".join(each["choices"][0]["delta"]["content"] for each in events))
                else:
                    found.append(json.loads(body)["choices"][0]["message"]["content"].split()[0])
            await writing
            client.close()
        assert found == [str(k) for k in range(count)]

    run(main)


def test_a_head_is_parsed_once_for_all_requests_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    real = parser.head_of
    monkeypatch.setattr(
        parser, "head_of", lambda path, *rest, **more: parsed.append(path) or real(path, *rest, **more)
    )

    async def main() -> None:
        engine = FakeEngine(answer=echo)
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            for k in range(12):
                head, _, body = post(
                    json.dumps({"model": "small", "k": 3 + 5 * k, "messages": []}).encode()
                ).partition(b"\r\n\r\n")
                # Half of the clients write head and body one by one.
                client.write(head + b"\r\n\r\n" + (body if k % 2 else b""))
                if not k % 2:
                    await asyncio.sleep(0.005)
                    client.write(body)
                assert (await client.answer())[0] == 200
            client.close()

    run(main)
    assert parsed == [b"/v1/chat/completions"]


def locked(engine: FakeEngine) -> RouterSettings:
    return RouterSettings(stages(engine), None, health=QUICK, keys=KeySettings(Path("keys.json")))


def test_a_key_that_is_taken_away_is_refused_under_a_head_that_was_let_in() -> None:
    made = make_key()
    key = Key(made.id, "k", made.digest, limits=KeyLimits())
    head = b"authorization: Bearer " + made.text.encode() + b"\r\n"

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(locked(engine), keyring=Keyring([key])) as up:
            client, statuses = await Client.of(up), []
            for ring in (None, None, Keyring([]), Keyring([key])):
                if ring is not None:
                    assert up.router.access is not None
                    up.router.access.replace(ring)
                client.write(post(more=head))
                statuses.append((await client.answer())[0])
            client.close()
        assert statuses == [200, 200, 401, 200]

    run(main)


def test_a_key_that_expires_is_refused_under_a_head_that_was_let_in() -> None:
    made, now_s = make_key(), [0.0]
    key = Key(made.id, "k", made.digest, expires_s=100.0)
    head = b"authorization: Bearer " + made.text.encode() + b"\r\n"

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(locked(engine), keyring=Keyring([key])) as up:
            assert up.router.access is not None
            up.router.access._wall = lambda: now_s[0]
            client, statuses = await Client.of(up), []
            for now_s[0] in (1.0, 2.0, 101.0):
                client.write(post(more=head))
                statuses.append((await client.answer())[0])
            client.close()
        assert statuses == [200, 200, 401]

    run(main)


@pytest.mark.parametrize(
    ("then", "status"),
    [
        (post(b"{"), 400),
        (post(b'{"model": "small", "user": "%b"}' % (b"x" * 60_000)), 413),
        (post().replace(b"content-length: ", b"content-length: 0x"), 400),
        (post().replace(b"content-length: ", b"content-length: 5, "), 400),
        (post(more=b"transfer-encoding: chunked\r\n"), 400),
        (post(more=b"host: y\r\n"), 400),
        (post(more=b"content-encoding: gzip\r\n"), 415),
        (b"\0" * 30, 400),
    ],
)
def test_limits_hold_behind_a_head_that_was_seen(then: bytes, status: int) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), max_body_bytes=50_000) as up:
            client = await Client.of(up)
            for request, expected in ((post(), 200), (post(), 200), (then, status)):
                client.write(request)
                assert (await client.answer())[0] == expected
            client.close()

    run(main)


def test_a_body_that_stops_behind_a_seen_head_is_not_waited_for_without_end() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), body_s=0.3) as up:
            client = await Client.of(up)
            for _ in range(2):
                client.write(post())
                assert (await client.answer())[0] == 200
            client.write(post()[:-3])
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.answer()
            client.close()
        assert len(engine.requests) == 2

    run(main)


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.1 200", b"x"])
def test_what_an_engine_says_behind_its_answer_is_nobody_else_s(more: bytes) -> None:
    """Also where its head is the same each time, so that none is parsed."""

    async def main() -> None:
        said = [0]

        async def answers(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            said[0] += 1
            content = completion(f"{said[0]:03}")
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
                content
            )
            writer.write(head + content + (more if said[0] > 2 else b""))

        engine = FakeEngine(answer=answers)
        async with started(engine), running(stages(engine)) as up:
            found = []
            for _ in range(6):
                answer = await up.chat("small")
                found.append(answer.json()["choices"][0]["message"]["content"])
            opened: list[Connection] = list(up.router.stages[0].replicas[0].pool.open)
        assert found == [f"{k:03}" for k in range(1, 7)]
        # Three were closed for it; the health check keeps one of its own.
        assert engine.connections >= 4
        assert len(opened) <= 2

    run(main)


def test_a_body_that_says_it_is_a_request_stays_a_body() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            inner = post(BODY).decode()
            for _ in range(3):
                client.write(post(json.dumps({"model": "small", "messages": [], "user": inner}).encode()))
                assert (await client.answer())[0] == 200
            client.close()
        assert [each["user"] for each in engine.requests] == [inner] * 3

    run(main)
