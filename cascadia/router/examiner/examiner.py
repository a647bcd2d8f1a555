"""Examiner: has other processes examine what a client's text may make run for long, so that the event loop
never does.

A task has the CPU time of one budget; a process works on one task at a time, the rest wait in turn. A process that
does not come back is killed and another takes its place. A task whose like was over its budget before is not tried
again: whoever sends the same schema a thousand times has one looked at.
"""

import asyncio
import socket
import struct
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, cast

import msgspec

from cascadia.router.examiner.confined import environment
from cascadia.router.examiner.examinations import CertaintyTask, SaidTask, SchemaTask, Task, VerifierTask
from cascadia.router.openai.bounded import turn_after
from cascadia.router.settings.model import Limits, RouterSettings
from cascadia_judge.scores.verifiers import Verifier

PROGRAM = "cascadia.router.examiner.program"
PROCESSES = 2
WALL_FACTOR, WALL_MORE_S = 4.0, 2.0
"""Of the budget of CPU time: on a crowded machine a task may wait for its core."""
WAITING_MAX = 1024
STILLBORN_MAX = 3
"""So many processes in a row that end before their first reply, and nobody waits for another."""
REMEMBERED = 1024
"""Tasks that were over their budget."""

_LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, Any])


def examines(settings: RouterSettings) -> bool:
    """Tells whether each answer to be gated is examined, whatever its request asks for."""
    judged = settings.judge is not None and any(each.kind == "agreement" for each in settings.judge.all)
    return judged or any(stage.verifiers for stage in settings.stages)


class Unexamined(Exception):
    """`kind`: `budget`, `large`, `pattern`, `busy`, `gone` (its process ended), `fault-...`. Free of anybody's text."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Examiner:
    """Pool of examining processes, which begin when first needed. `failed` is told what was not examined
    (`schema`, ...), and why.
    """

    def __init__(self, limits: Limits, failed: Callable[[str, str], object] = lambda _, __: None) -> None:
        self.cpu_s = limits.examination_s
        self.wall_s = WALL_FACTOR * limits.examination_s + WALL_MORE_S
        self._failed = failed
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._beginning: set[asyncio.Task[None]] = set()
        self._leaving: set[_Process] = set()
        self._stillborn = 0
        self._waiting: deque[asyncio.Future[_Process]] = deque()
        self._hopeless: OrderedDict[bytes, None] = OrderedDict()
        self._closed = False

    async def begin(self) -> None:
        """Starts a process and has it examine something, so that the first request need not wait for one."""
        with suppress(Unexamined):
            await self.said([""], None)

    async def meets(self, schema: bytes, document: str) -> bool | None:
        """Tells whether the JSON `document` meets `schema`; None where that cannot be said."""
        try:
            found: bool | None = await self._examined(SchemaTask(schema, document), "schema", schema)
        except Unexamined:
            return None
        return found

    async def passes(self, verifier: Verifier, texts: list[str]) -> bool:
        """Tells whether all `texts` pass. What cannot be looked at in bounded time does not."""
        reference = msgspec.json.encode(verifier.reference)
        task = VerifierTask(verifier.kind, reference, verifier.absent, texts)
        try:
            return bool(await self._examined(task, "verifier", msgspec.msgpack.encode(task)))
        except Unexamined:
            return False

    async def said(self, texts: list[str], extract: str | None) -> list[str]:
        """Part of each text that is compared. Raises `Unexamined`."""
        task = SaidTask(texts, extract)
        found: list[str] = await self._examined(task, "extract", msgspec.msgpack.encode(task))
        return found

    async def certainty(self, parts: list[bytes]) -> list[Any]:
        """The fields of the `Certainty` in those log-probabilities. Raises `Unexamined`."""
        found: list[Any] = await self._examined(CertaintyTask(parts), "certainty", b"".join(parts))
        return found

    async def _examined(self, task: Task, what: str, alike: bytes) -> Any:
        digest = blake2b(alike, digest_size=16, person=what.encode()).digest()
        try:
            if digest in self._hopeless:
                raise Unexamined("budget")
            await turn_after(alike)
            content = _encoder.encode(task)
            process = await self._taken()
            exchange = asyncio.get_running_loop().create_task(self._exchanged(process, content))
            exchange.add_done_callback(_heard)
            # Whoever stops waiting, the process is heard to the end: one that is killed costs more than its budget.
            why, found = await asyncio.shield(exchange)
            if why:
                raise Unexamined(why)
        except Unexamined as error:
            if error.kind in ("budget", "gone"):
                self._remember(digest)
            self._failed(what, error.kind)
            raise
        return found

    async def _exchanged(self, process: "_Process", content: bytes) -> tuple[str, Any]:
        try:
            return await process.asked(content, self.wall_s)
        except Unexamined as error:
            return error.kind, None
        finally:
            self._given_back(process)

    def _remember(self, digest: bytes) -> None:
        self._hopeless[digest] = None
        if len(self._hopeless) > REMEMBERED:
            self._hopeless.popitem(last=False)

    async def _taken(self) -> "_Process":
        if self._idle:
            process = self._idle.pop()
            self._busy.add(process)
            return process
        if len(self._waiting) >= WAITING_MAX or self._closed:
            raise Unexamined("busy")
        turn: asyncio.Future[_Process] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._begin_another()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._given_back(turn.result())
            raise

    def _begin_another(self) -> None:
        if self._closed or len(self._busy) + len(self._idle) + len(self._beginning) >= PROCESSES:
            return
        task = asyncio.get_running_loop().create_task(self._begun())
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)
        task.add_done_callback(_heard)

    async def _begun(self) -> None:
        try:
            process = await _Process.begun(self.cpu_s, self.wall_s)
        except OSError:
            # Without any other, nobody's turn would come.
            if not (self._busy or self._idle or len(self._beginning) > 1):
                self._turned_away("gone")
            return
        self._given_back(process)

    def _turned_away(self, why: str) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(Unexamined(why))

    def _given_back(self, process: "_Process") -> None:
        """Gives the process to whoever has waited longest; one that is not fit for another task is replaced
        where any waits.
        """
        self._busy.discard(process)
        if not process.fit or self._closed:
            self._let_go(process)
            self._stillborn = 0 if process.replied else self._stillborn + 1
            if self._stillborn >= STILLBORN_MAX:
                self._turned_away("gone")
            elif self._waiting:
                self._begin_another()
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._busy.add(process)
                turn.set_result(process)
                return
        self._idle.append(process)

    async def stop(self) -> None:
        """Stops examining; what is under way ends without a result."""
        self._closed = True
        self._turned_away("busy")
        await asyncio.gather(*self._beginning)
        for process in (*self._idle, *self._busy):
            self._let_go(process)
        self._idle.clear()
        await asyncio.gather(*(process.over() for process in self._leaving))

    def _let_go(self, process: "_Process") -> None:
        process.close()
        self._leaving = {each for each in self._leaving if not each.gone} | {process}


class _Process(asyncio.Protocol):
    """One process, and the task that it has."""

    def __init__(self, program: "subprocess.Popen[bytes]") -> None:
        self._program = program
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()
        self._reaping: asyncio.Future[int] | None = None
        self._received = bytearray()
        self._reply: asyncio.Future[tuple[str, Any]] | None = None
        self.fit = True
        self.replied = False

    @staticmethod
    async def begun(cpu_s: float, wall_s: float) -> "_Process":
        """Raises `OSError`."""
        mine, its = socket.socketpair()
        try:
            program = await asyncio.to_thread(_started, its.fileno(), cpu_s, wall_s)
        except BaseException:
            mine.close()
            raise
        finally:
            its.close()
        process = _Process(program)
        await asyncio.get_running_loop().create_connection(lambda: process, sock=mine)
        return process

    async def asked(self, content: bytes, wall_s: float) -> tuple[str, Any]:
        """Reply of the process. Raises `Unexamined` where it does not come back; it is then not `fit` for
        another task.
        """
        if self._transport is None:
            self.fit = False
            raise Unexamined("gone")
        loop = asyncio.get_running_loop()
        self._reply = loop.create_future()
        self._transport.write(_LENGTH.pack(len(content)))
        self._transport.write(content)
        alarm = loop.call_later(wall_s, self._gone)
        try:
            return await self._reply
        finally:
            alarm.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < _LENGTH.size:
            return
        (length,) = _LENGTH.unpack_from(self._received)
        if len(self._received) < _LENGTH.size + length:
            return
        content = bytes(self._received[_LENGTH.size :])
        self._received.clear()
        if self._reply is not None and not self._reply.done():
            self.replied = True
            self._reply.set_result(_decoder.decode(content))

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._lost.set()
        self._gone()

    def _gone(self) -> None:
        self.fit = False
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(Unexamined("gone"))

    def close(self) -> None:
        self.fit = False
        if self._transport is not None:
            self._transport.abort()
        with suppress(OSError):
            self._program.kill()
        if self._program.poll() is None and self._reaping is None:
            # The kernel takes a moment, which nobody waits for on the event loop.
            self._reaping = asyncio.get_running_loop().run_in_executor(None, self._program.wait)

    @property
    def gone(self) -> bool:
        return self._transport is None and self._program.poll() is not None

    async def over(self) -> None:
        """Waits, after `close`, until it has ended."""
        await self._lost.wait()
        if self._reaping is not None:
            await self._reaping


def _started(descriptor: int, cpu_s: float, wall_s: float) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", PROGRAM, str(descriptor), str(cpu_s), str(wall_s)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
        env=environment(),
    )


def _heard(task: "asyncio.Task[Any]") -> None:
    """A fault of ours is told by the event loop also where nobody waits for the task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
