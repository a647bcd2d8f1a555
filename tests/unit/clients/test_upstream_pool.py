import asyncio

from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.pool import LIVES_S, Pool

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Engine(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)


async def exchange(pool: Pool) -> Connection:
    """One request and its answer, on a kept connection where there is one."""
    connection = pool.take() or await pool.connect()
    connection.send(REQUEST, first_byte_s=5, total_s=5, max_bytes=100)
    await connection.whole()
    pool.release(connection)
    return connection


def test_a_connection_is_used_again_until_it_is_old() -> None:
    """A Service leaves a stopping engine its connections: they must not live for as long as there is work."""

    async def main() -> None:
        async with await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0) as server:
            pool = Pool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5)
            first = await exchange(pool)
            assert await exchange(pool) is first
            pool.open[first] -= LIVES_S + 1
            assert await exchange(pool) is first
            assert await exchange(pool) is not first
            pool.close()

    asyncio.run(main())


def test_a_connection_that_is_let_go_of_twice_is_given_to_one_only() -> None:
    async def main() -> None:
        async with await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0) as server:
            pool = Pool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5)
            pool.release(await exchange(pool))
            assert pool.take() is not None
            assert pool.take() is None
            pool.close()

    asyncio.run(main())
