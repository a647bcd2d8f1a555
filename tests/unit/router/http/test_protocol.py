"""HTTP/1.1 on raw sockets: what clients may do with a connection, and what they may not."""

import asyncio
import json
import socket
from typing import Any

import pytest

from cascadia.router.http.asgi import Receive, Scope, Send
from cascadia.router.settings.model import Limits
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import Running, Serving, on_uvicorn, run, running, stages, until

SERVERS = pytest.mark.parametrize("serving", [running, on_uvicorn])
"""What holds of any HTTP server is held of uvicorn too; the rest is claimed of our own protocol alone."""
BODY = b'{"model": "small", "messages": []}'
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


def post(body: bytes = BODY, more: bytes = b"", path: bytes = b"/v1/chat/completions") -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n%b" % (path, more, len(body), body)


class Client:
    """A connection that is written to byte by byte and read answer by answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def of(cls, up: Running) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", up.port))

    def write(self, content: bytes) -> None:
        self.writer.write(content)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            status = int(first.split()[1])
            if headers.get("transfer-encoding") == "chunked":
                return status, headers, await self._chunks()
            if "content-length" not in headers:
                return status, headers, b"" if status < 200 else await self.reader.read()
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def ended(self) -> bool:
        async with asyncio.timeout(60):
            return not await self.reader.read(1)

    def close(self) -> None:
        self.writer.transport.abort()


@SERVERS
def test_one_connection_carries_all_kinds_of_requests_one_after_another(serving: Serving) -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), serving(stages(engine)) as up:
            client = await Client.of(up)
            statuses = []
            for request in (
                HEALTH,
                post(),
                post(b"{"),
                HEALTH,
                post(b'{"model": "small", "stream": true}'),
                post(),
            ):
                client.write(request)
                status, _, body = await client.answer()
                statuses.append(status)
            assert json.loads(body)["choices"][0]["message"]["content"] == "four"
            client.close()
        assert statuses == [200, 200, 400, 200, 200, 200]

    run(main)


@SERVERS
def test_requests_sent_without_waiting_are_answered_in_their_order(serving: Serving) -> None:
    async def echo(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        # The first takes longest.
        for _ in range(20 - body["k"]):
            await asyncio.sleep(0)
        send(writer, 200, completion(str(body["k"])))

    async def main() -> None:
        engine = FakeEngine(answer=echo)
        async with started(engine), serving(stages(engine)) as up:
            client = await Client.of(up)
            asked = [post(json.dumps({"model": "small", "k": k}).encode()) for k in range(20)]
            client.write(b"".join(asked[:10]) + HEALTH + b"".join(asked[10:]))
            bodies = [json.loads((await client.answer())[2]) for _ in range(21)]
            client.close()
        assert bodies.pop(10) == {"status": "ok"}
        assert [body["choices"][0]["message"]["content"] for body in bodies] == [str(k) for k in range(20)]
        assert [request["k"] for request in engine.requests] == list(range(20))

    run(main)


@SERVERS
def test_a_request_may_come_byte_by_byte_and_its_body_in_chunks(serving: Serving) -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), serving(stages(engine)) as up:
            client = await Client.of(up)
            chunked = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            chunked += b"5\r\n" + BODY[:5] + b"\r\n%x;an=extension\r\n" % (len(BODY) - 5) + BODY[5:]
            chunked += b"\r\n0\r\nx-trailer: content-length: 7\r\n\r\n"
            for content in (post(), chunked):
                for at in range(len(content)):
                    client.write(content[at : at + 1])
                    await asyncio.sleep(0)
                assert (await client.answer())[0] == 200
            client.close()
        assert engine.requests == [json.loads(BODY) | {"model": "small-model"}] * 2
        assert "x-trailer" not in "".join(engine.heads)

    run(main)


def test_a_client_that_asks_first_is_told_to_go_on_unless_its_body_is_refused() -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), running(stages(engine), max_body_bytes=1000) as up:
            client = await Client.of(up)
            head, _, body = post(more=b"expect: 100-continue\r\n").partition(b"\r\n\r\n")
            client.write(head + b"\r\n\r\n")
            assert (await client.answer())[0] == 100
            client.write(body)
            assert (await client.answer())[0] == 200
            head = post(b"x" * 1001, more=b"expect: 100-continue\r\n").partition(b"\r\n\r\n")[0]
            client.write(head + b"\r\n\r\n")
            assert (await client.answer())[0] == 413
            assert await client.ended()
            client.close()

    run(main)


def test_a_client_that_would_rather_speak_http_2_is_answered_in_http_1() -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), running(stages(engine)) as up:
            upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAA\r\n"
            for cut in (10, -10, None):
                client = await Client.of(up)
                content = post(more=upgrade)
                client.write(content[:cut])
                await asyncio.sleep(0.01)
                client.write(content[cut:] if cut else HEALTH)
                status, headers, body = await client.answer()
                assert (status, headers["connection"]) == (200, "close")
                assert b"four" in body
                assert await client.ended()
                client.close()

    run(main)


def test_http_1_0_gets_plain_bodies_and_a_closed_connection() -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), running(stages(engine)) as up:
            for body in (BODY, b'{"model": "small", "stream": true}'):
                client = await Client.of(up)
                client.write(post(body, more=b"connection: keep-alive\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"))
                status, headers, content = await client.answer()
                assert (status, headers["connection"]) == (200, "close")
                assert "transfer-encoding" not in headers
                assert content[:1] in (b"{", b"d")
                assert await client.ended()
                client.close()

    run(main)


@SERVERS
def test_head_gets_a_head_only(serving: Serving) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), serving(stages(engine)) as up:
            client = await Client.of(up)
            client.write(b"HEAD /health HTTP/1.1\r\nhost: x\r\n\r\n" + HEALTH)
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert b"content-length: " in head
            assert head.startswith(b"HTTP/1.1 200 ")
            assert await client.reader.readexactly(15) == b"HTTP/1.1 200 OK"
            client.close()
            for path in ("/v1/models", "/v1/models/small", "/metrics", "/ready"):
                asked = await up.client.head(path)
                assert (asked.status_code, asked.content) == (200, b""), path

    run(main)


@pytest.mark.parametrize("address", ["http://other.example", "HTTPS://other.example:8443"])
def test_an_address_that_is_written_whole_is_the_path_in_it(address: str) -> None:
    async def main() -> None:
        engine = FakeEngine("hi")
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            for asked in (post(), post(), b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"):
                client.write(asked.replace(b" /", b" " + address.encode() + b"/", 1))
            assert [(await client.answer())[0] for _ in range(3)] == [200, 200, 404]
            client.write(b"GET " + address.encode() + b"?x HTTP/1.1\r\nhost: x\r\n\r\n" + HEALTH)
            assert [(await client.answer())[0] for _ in range(2)] == [404, 200]
            client.close()
        assert len(engine.requests) == 2

    run(main)


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/admin/none"])
def test_a_client_of_http_1_0_is_sent_no_interim_answer(path: bytes) -> None:
    async def main() -> None:
        engine = FakeEngine("hi")
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            head, _, body = post(more=b"expect: 100-continue\r\n").partition(b"\r\n\r\n")
            client.write(head.replace(b"1.1", b"1.0").replace(b"/v1/chat/completions", path) + b"\r\n\r\n")
            early = asyncio.ensure_future(client.reader.read(1))
            await asyncio.sleep(0.05)
            assert not early.done()
            client.write(body)
            assert await early == b"H"
            client.close()

    run(main)


SMUGGLED = {
    "two lengths": b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
    "length and chunks": b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "chunks that are not last": b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunks twice": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a signed length": b"content-length: +4\r\n\r\nabcd",
    "a list of lengths": b"content-length: 4, 4\r\n\r\nabcd",
    "a length too long for a number": b"content-length: 99999999999999999999999\r\n\r\nabcd",
    "a folded header": b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "a space before the colon": b"content-length : 4\r\n\r\nabcd",
    "a bare line feed": b"x: a\ncontent-length: 4\r\n\r\nabcd",
    "a bare carriage return": b"x: a\rcontent-length: 4\r\n\r\nabcd",
    "a nul": b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "a chunk's size that is none": b"transfer-encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n",
    "a chunk's size too large": b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nabcde\r\n0\r\n\r\n",
    "a chunk longer than it says": b"transfer-encoding: chunked\r\n\r\n2\r\nabcde\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("how", SMUGGLED)
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/health"])
def test_what_two_servers_could_read_in_two_ways_is_refused_and_nothing_after_it_is_served(
    how: str, path: bytes
) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            client.write(b"POST %b HTTP/1.1\r\nhost: x\r\n" % path + SMUGGLED[how] + post())
            status, headers, body = await client.answer()
            assert status == 400
            assert headers["connection"] == "close"
            assert json.loads(body)["error"]["code"] == "invalid_http"
            assert await client.ended()
            client.close()
        assert engine.requests == []

    run(main)


def test_nothing_that_a_client_writes_becomes_a_header_of_its_own() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            for more in (
                b"x-request-id: a b\r\n",
                b"x-request-id: \xc3\xa9\r\n",
                b"traceparent: \xc3\xa9\r\n",
            ):
                client.write(post(more=more))
                _, headers, _ = await client.answer()
                assert headers["x-request-id"].isascii()
                assert " " not in headers["x-request-id"]
            client.write(b"GET /v1/models/a%0d%0ax-evil:%201/ HTTP/1.1\r\nhost: x\r\n\r\n")
            _, headers, _ = await client.answer()
            assert "x-evil" not in headers
            client.close()
        assert "traceparent" not in "".join(engine.heads)

    run(main)


def test_nobody_takes_cookies_apart() -> None:
    seen: list[set[bytes]] = []

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            served = up.router.routes

            async def routes(scope: Scope, receive: Receive, send: Send) -> None:
                seen.append({name for name, _ in scope["headers"]})
                await served(scope, receive, send)

            up.router._routes = routes
            found = await up.client.get("/health", headers={"cookie": "a=b;" * 5000, "x-other": "c"})
            assert found.status_code == 200

    run(main)
    assert b"x-other" in seen[0]
    assert b"cookie" not in seen[0]


def test_a_refusal_waits_for_the_answers_before_it() -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("a"))
        await go.wait()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            client.write(post(b'{"model": "small", "stream": true}') + b"nonsense\r\n\r\n")
            await engine.arrived.wait()
            go.set()
            status, _, body = await client.answer()
            assert (status, body[-14:]) == (200, b"data: [DONE]\n\n")
            assert (await client.answer())[0] == 400
            assert await client.ended()
            client.close()

    run(main)


@pytest.mark.parametrize(
    "waste",
    [
        b"transfer-encoding: chunked\r\n\r\n5;" + b"x" * 200_000,
        b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 40_000,
        b"x: y\r\n" * 40_000,
    ],
    ids=["extension", "trailers", "headers"],
)
def test_a_head_or_tail_without_end_is_refused(waste: bytes) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            client.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n" + waste)
            assert (await client.answer())[0] == 431
            client.close()

    run(main)


def test_a_client_that_asks_on_and_on_is_not_read_before_it_reads() -> None:
    async def main() -> None:
        engine = FakeEngine("x" * 50_000)
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            client.write(post() * 2000)
            await until(lambda: any(front.full for front in up.server.connections))
            (front,) = (front for front in up.server.connections if front.full)
            assert front._unread
            assert front.transport.get_write_buffer_size() < 1_000_000
            served = len(engine.requests)
            client.close()
            await until(lambda: front.gone)
        assert served < 2000

    run(main)


def test_a_client_that_stops_reading_is_cut_off_and_frees_its_engine() -> None:
    async def much(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for _ in range(1000):
            event(writer, "x" * 100_000)
            await writer.drain()

    async def main() -> None:
        engine = FakeEngine(answer=much)
        async with started(engine), running(stages(engine), idle_s=0.4) as up:
            _, writer = await asyncio.open_connection("127.0.0.1", up.port, limit=1024)
            writer.write(post(b'{"model": "small", "stream": true}'))
            await until(lambda: up.lines != [])
            assert up.lines[0]["status"] == 499
            assert up.router.stages[0].replicas[0].running == 0
            writer.transport.abort()

    run(main)


def test_connections_beyond_the_limit_are_refused_and_make_room_when_they_end() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine), max_connections=1) as up:
            first = await Client.of(up)
            first.write(HEALTH)
            assert (await first.answer())[0] == 200
            second = await Client.of(up)
            status, headers, _ = await second.answer()
            assert (status, headers["retry-after"]) == (503, "1")
            first.close()
            second.close()
            await until(lambda: not up.server.connections)
            third = await Client.of(up)
            third.write(HEALTH)
            assert (await third.answer())[0] == 200
            third.close()

    run(main)


def test_idle_connections_are_closed_at_the_end_and_busy_ones_when_they_are_answered() -> None:
    go = asyncio.Event()

    async def wait(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        await go.wait()
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=wait)
        async with started(engine), running(stages(engine)) as up:
            idle, busy = await Client.of(up), await Client.of(up)
            idle.write(HEALTH)
            await idle.answer()
            busy.write(post(b'{"model": "small", "stream": true}'))
            await engine.arrived.wait()
            up.server.stop()
            assert await idle.ended()
            go.set()
            assert (await busy.answer())[2] == b"data: [DONE]\n\n"
            assert await busy.ended()
            idle.close()
            busy.close()

    run(main)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
@pytest.mark.parametrize("apart", [1, 7, 32])
def test_a_head_may_have_as_many_bytes_as_the_limit_says_however_many_lines(
    apart: int, more: int, status: int
) -> None:
    """Counted are the address, and of each line its name, its value and four bytes about them."""

    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            client = await Client.of(up)
            path, host = b"/v1/models", b"host: x\r\n"
            lines = [b"a: " + b"v" * (1000 // apart) + b"\r\n"] * (20 * apart)
            left = Limits().max_head_bytes + more - len(path) - len(host) - sum(map(len, lines))
            lines.append(b"b: " + b"v" * (left - 5) + b"\r\n")
            client.write(b"GET " + path + b" HTTP/1.1\r\n" + host + b"".join(lines) + b"\r\n")
            assert (await client.answer())[0] == status
            client.close()

    run(main)
