"""Parts of a stream that are passed on in the turn of the event loop in which they come."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.upstream.connection import Connection

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class _Socket(asyncio.Transport):
    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def streamed(main: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
    """`main` with a connection whose answer is a stream that has begun."""

    async def began() -> None:
        connection = Connection(asyncio.get_running_loop(), lambda _: None, HeldBytes(1 << 20))
        connection.connection_made(_Socket())
        connection.send(b"", 60.0, 60.0, 1 << 20)
        connection.stream(60.0)
        connection.data_received(HEAD)
        await main(connection)
        connection.connection_lost(None)

    asyncio.run(began())


async def waiting(work: Coroutine[Any, Any, bytes]) -> "asyncio.Task[bytes]":
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    return task


def test_parts_are_taken_in_the_turn_in_which_they_come() -> None:
    taken: list[bytes] = []

    def take(part: bytes) -> bool:
        taken.append(part)
        return True

    async def main(connection: Connection) -> None:
        task = await waiting(connection.some(take))
        for part in (b"one", b"two", b"three"):
            connection.data_received(chunk(part))
            assert taken[-1] == part
        connection.data_received(chunk(b"four") + chunk(b"five"))
        assert taken[-1] == b"fourfive"
        connection.data_received(chunk(b"last") + END)
        assert await task == b"last"
        assert await connection.some(take) == b""
        assert connection.finish()

    streamed(main)
    assert len(taken) == 4


def test_what_is_not_taken_is_there_for_who_waits_and_nothing_before_it() -> None:
    async def main(connection: Connection) -> None:
        taken: list[bytes] = []

        def take(part: bytes) -> bool:
            taken.append(part)
            return len(taken) < 2

        task = await waiting(connection.some(take))
        connection.data_received(chunk(b"one"))
        connection.data_received(chunk(b"two"))
        connection.data_received(chunk(b"three"))
        assert taken == [b"one", b"two"]
        assert await task == b"twothree"

    streamed(main)


def test_a_fault_in_taking_is_told_to_who_waits() -> None:
    def take(part: bytes) -> bool:
        raise OverflowError(len(part))

    async def main(connection: Connection) -> None:
        task = await waiting(connection.some(take))
        connection.data_received(chunk(b"one"))
        with pytest.raises(OverflowError):
            await task

    streamed(main)


def test_a_head_of_thousands_of_lines_is_read_in_turns() -> None:
    async def main(connection: Connection) -> None:
        connection.data_received(chunk(b"last") + b"0\r\n" + b"a:\r\n" * 12_000 + b"\r\n")
        turns = 0
        while not connection.answer.complete:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 2
        assert await connection.some() == b"last"

    streamed(main)
