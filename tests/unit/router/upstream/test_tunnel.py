"""An API is reached through the proxy that the environment names, and what goes wrong on the way is told apart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from cascadia.clients.engines.proxies import Proxy, proxy_of
from cascadia.controller.local.apis import check_apis
from cascadia.domain.errors import BadInput
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.pool import Pool
from tests.unit.router.certificates import certificate

NAME = "api.example"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, OSError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK)
    writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(4096):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def proxy(to_port: int, heads: list[bytes], refusal: bytes = b"") -> AsyncIterator[int]:
    """Port of a proxy that lets everything through to `to_port`, or answers `refusal`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        if refusal:
            writer.write(refusal)
            writer.close()
            return
        there = await asyncio.open_connection("127.0.0.1", to_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def asked(pool: Pool) -> bytes:
    """Bodies of two answers on one connection."""
    connection, said = await pool.connect(), []
    for _ in range(2):
        connection.send(b"GET / HTTP/1.1\r\n\r\n", LIMIT_S, LIMIT_S, 100)
        said.append(await connection.whole())
        pool.release(connection)
        assert pool.take() is connection
    pool.close()
    return b" ".join(said)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_api_is_asked_through_the_proxy_by_its_own_name_and_certificate(
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, context = certificate(tmp_path / "api", f"DNS:{NAME}")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    heads: list[bytes] = []

    async def main() -> None:
        api = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with api, proxy(api.sockets[0].getsockname()[1], heads) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:s%20t@127.0.0.1:{port}")
            assert await asked(Pool(f"https://{NAME}", LIMIT_S)) == b"hi hi"
            with pytest.raises(UpstreamError) as failed:
                await Pool("https://other.example:8443", LIMIT_S).connect()
            assert failed.value.kind == "certificate-name"

    run(main())
    assert heads == [
        b"CONNECT %b HTTP/1.1\r\nhost: %b\r\nproxy-authorization: Basic bWU6cyB0\r\n\r\n" % (at, at)
        for at in (b"api.example:443", b"other.example:8443")
    ]


@pytest.mark.parametrize("refusal", [b"HTTP/1.1 407 No\r\n\r\n", b"\r\n", b"HTTP/1.1 200" + bytes(20_000)])
def test_a_proxy_that_lets_nothing_through_is_told_as_such(
    refusal: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with proxy(0, [], refusal) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{port}")
            pool = Pool(f"https://{NAME}", LIMIT_S)
            with pytest.raises(UpstreamError) as failed:
                await pool.connect()
            assert failed.value.kind == "proxy"
            assert pool.open == {}
        with pytest.raises(UpstreamError) as failed:
            await pool.connect()
        assert failed.value.kind == "proxy"

    asyncio.run(main())


def test_engines_of_ones_own_are_asked_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example")
    monkeypatch.setenv("NO_PROXY", "own.example,10.0.0.1")
    assert proxy_of(f"https://{NAME}/v1") == Proxy("proxy.example", 3128)
    for url in (
        "http://api.example",
        "https://127.0.0.1:1",
        "https://a.own.example",
        "https://10.0.0.1:8000",
    ):
        assert proxy_of(url) is None
    assert Pool(f"https://{NAME}", LIMIT_S, address="10.0.0.2").proxy is None


@pytest.mark.parametrize("told", ["socks5://proxy.example", "http://", "http://proxy.example:port"])
def test_a_proxy_that_cannot_be_asked_is_refused_in_a_line(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", told)
    router = {"stages": [{"name": "api", "replicas": [{"url": f"https://{NAME}"}]}]}
    with pytest.raises(BadInput, match="HTTPS_PROXY: is no address of an HTTP proxy; write http://HOST:PORT"):
        check_apis(router, {})
