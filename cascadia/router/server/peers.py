"""The processes that serve beside this one: each answers the others at a Unix socket that only they reach."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from cascadia.router.telemetry.internal_errors import tell

PATIENCE_S = 1.0
"""Who does not answer within this time is left out."""

TURN_LOOK_S = 0.01
_TURN = "turn.lock"

Answer = Callable[[bytes], Awaitable[bytes]]


class Peers:
    """`number` is this process's among `count`, `folder` is theirs alone. `answers` has what each may be asked."""

    def __init__(self, folder: Path = Path(), number: int = 0, count: int = 1) -> None:
        self.folder = folder
        self.number = number
        self.count = count
        self.answers: dict[str, Answer] = {}
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        if self.count > 1:
            path = self._path(self.number)
            path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._answer, path)
            self._inode = path.stat().st_ino

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            path = self._path(self.number)
            with contextlib.suppress(FileNotFoundError):
                # It may be its successor's by now.
                if path.stat().st_ino == self._inode:
                    path.unlink()

    async def ask(
        self, what: str, body: bytes = b"", patience_s: float = PATIENCE_S, *, successor: bool = False
    ) -> dict[int, bytes]:
        """Answers of the others, by number; of those that answer. `successor`: that too which takes this one's place
        while it ends."""
        others = [n for n in range(self.count) if n != self.number or (successor and self._succeeded)]
        asked = (self._one(number, what.encode("ascii") + b"\n" + body, patience_s) for number in others)
        found = zip(others, await asyncio.gather(*asked), strict=True)
        return {number: answer for number, answer in found if answer}

    async def tell(self, what: str, body: bytes, patience_s: float) -> None:
        """Tells all others, and those as well that come while the others are told: they may have asked, for what is in
        force, one that did not know it yet."""
        told: dict[int, tuple[int, int]] = {}
        while new := {n: i for n, i in self._there().items() if told.get(n) != i}:
            message = what.encode("ascii") + b"\n" + body
            await asyncio.gather(*(self._one(number, message, patience_s) for number in new))
            told |= new

    @contextlib.asynccontextmanager
    async def turn(self, patience_s: float) -> AsyncIterator[None]:
        """One of all processes at a time; one that dies has it no more. Raises `TimeoutError`."""
        async with contextlib.AsyncExitStack() as held:
            async with asyncio.timeout(patience_s):
                await held.enter_async_context(self._turn)
                if self.count > 1:
                    lock = os.open(self.folder / _TURN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                    held.callback(os.close, lock)
                    while not _taken(lock):
                        await asyncio.sleep(TURN_LOOK_S)
            yield

    def _there(self) -> dict[int, tuple[int, int]]:
        """Processes that listen beside this one, each by its number with what tells it from its successor."""
        found = {}
        for number in range(self.count) if self.count > 1 else ():
            with contextlib.suppress(FileNotFoundError):
                socket = self._path(number).stat()
                if number != self.number or socket.st_ino != self._inode:
                    # The number of an inode that is free is given again.
                    found[number] = socket.st_ino, socket.st_ctime_ns
        return found

    @property
    def _succeeded(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._server is not None and self._path(self.number).stat().st_ino != self._inode
        return False

    async def _one(self, number: int, question: bytes, patience_s: float) -> bytes:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(patience_s):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    writer.write(question)
                    writer.write_eof()
                    return await reader.read()
                finally:
                    writer.close()
        return b""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            what, _, body = (await reader.read()).partition(b"\n")
            writer.write(await self.answers[what.decode("ascii")](body))
            await writer.drain()
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001 (the boundary: who asked is told nothing, and goes on without)
            tell("an answer to another process failed", error)
        finally:
            writer.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.sock"


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
