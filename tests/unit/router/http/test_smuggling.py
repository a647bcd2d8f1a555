"""Nothing that a client writes becomes a header, an address or another request; beside what test_protocol.py holds."""

import json

import pytest

from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages
from tests.unit.router.http.test_protocol import BODY, HEALTH, Client, post

EVIL = "http://127.0.0.1:1"
NAMES = (
    "x-cascadia-max-stage",
    "x-cascadia-deadline-ms",
    "x-cascadia-quality-min",
    "x-cascadia-score-min",
    "x-request-id",
    "traceparent",
)


@pytest.mark.parametrize("name", [name.encode() for name in (*NAMES, "authorization")])
@pytest.mark.parametrize(
    "value", [b"a\r\n\tx-evil: 1", b"a\nx-evil: 1", b"a\rx-evil: 1", b"a\0x-evil: 1", b"a\r\n x-evil: 1"]
)
def test_a_line_break_in_a_header_is_refused_or_ends_it(name: bytes, value: bytes) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            client.write(post(more=name + b": " + value + b"\r\n"))
            status, headers, _ = await client.answer()
            assert status == 400
            assert "x-evil" not in headers
            client.close()
        assert engine.requests == []

    run(main)


@pytest.mark.parametrize("escaped", [b"%0d%0ax-evil:%201", b"\\r\\nx-evil: 1", "a\u0085x-evil: 1".encode()])
def test_what_only_looks_like_a_line_break_stays_within_its_line(escaped: bytes) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            for name in NAMES:
                client.write(post(more=name.encode() + b": " + escaped + b"\r\n"))
                _, headers, body = await client.answer()
                assert "x-evil" not in headers
                assert json.loads(body)
            client.close()
        for head in engine.heads:
            assert not any(line.lower().startswith("x-evil") for line in head.split("\r\n"))
            assert head.isascii()

    run(main)


def test_no_header_path_or_member_of_a_body_names_an_engine() -> None:
    async def main() -> None:
        engine = FakeEngine("mine")
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            member = {"base_url": EVIL, "api_base": EVIL, "url": EVIL, "upstream": EVIL, "endpoint": EVIL}
            bodies = [BODY, json.dumps({"model": "small", "messages": [], "user": EVIL} | member).encode()]
            headers = [
                b"",
                b"x-forwarded-host: 127.0.0.1:1\r\nx-forwarded-proto: https\r\nforwarded: host=127.0.0.1:1\r\n",
                b"x-cascadia-upstream: " + EVIL.encode() + b"\r\nx-cascadia-url: " + EVIL.encode() + b"\r\n",
                b"x-original-url: " + EVIL.encode() + b"\r\nx-rewrite-url: /admin\r\nhost: 127.0.0.1:1\r\n",
            ]
            for body in bodies:
                for more in headers:
                    client.write(post(body, more))
                    status, _, content = await client.answer()
                    assert status in (200, 400)
                    if status == 400:
                        client.close()
                        client = await Client.of(up)
                        continue
                    assert json.loads(content)["choices"][0]["message"]["content"] == "mine"
            absolute = post().replace(b"POST /v1", b"POST " + EVIL.encode() + b"/v1")
            client.write(absolute)
            assert (await client.answer())[0] in (200, 400, 404, 405)
            for model in (EVIL, f"{EVIL}/v1", "small@127.0.0.1:1", "../small", "//127.0.0.1:1/small"):
                client.write(post(json.dumps({"model": model, "messages": []}).encode()))
                status, _, _ = await client.answer()
                assert status == 404
            client.close()
        for head in engine.heads:
            assert f"host: 127.0.0.1:{engine.port}" in head
            assert "forwarded" not in head
            assert "127.0.0.1:1\r" not in head

    run(main)


def test_an_engine_cannot_write_a_header_of_the_routers_answer() -> None:
    async def answer(engine: FakeEngine, body: object, writer: object) -> None:
        more = "set-cookie: a=b\r\nx-cascadia-stage: huge\r\nlocation: http://evil\r\n"
        send(writer, 200, completion("x"), more=more)  # type: ignore[arg-type]

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine)) as up:
            headers = (await up.chat("small")).headers
            assert headers["x-cascadia-stage"] == "small"
            assert "set-cookie" not in headers
            assert "location" not in headers

    run(main)


def test_a_second_request_hidden_in_a_body_is_part_of_that_body() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            hidden = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
            client.write(post(json.dumps({"model": "small", "x": hidden.decode()}).encode()) + HEALTH)
            assert (await client.answer())[0] == 200
            assert json.loads((await client.answer())[2]) == {"status": "ok"}
            client.close()
        assert len(engine.requests) == 1

    run(main)
