"""One keep-alive HTTP/1.1 connection to an engine: bytes of a request out, status, headers and body back.

States: idle → (send) waiting for the head → body → idle again, or closed. One exchange at a time; at most one waiter,
or one function that is called at the end. Its parts: `AnswerParser` reads heads, `Body` keeps what follows them,
`Deadlines` says by when something must come. Past `HIGH_WATER` bytes unread of a streamed answer the socket is not read
from, so that a slow client slows the engine instead of filling memory.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.upstream.body import Body
from cascadia.router.upstream.deadlines import TICK_S, Deadlines
from cascadia.router.upstream.errors import Kind, UpstreamError
from cascadia.router.upstream.parsing import Answer, AnswerParser

SLICE_BYTES = 16 * 1024
"""Fed to the parser at once where more came."""
CHUNKS_A_TURN = 2048
"""Of a body, each of which takes a microsecond, or lines of a head; what came beyond is for the event loop's next turn.
"""

_Want = Literal["nothing", "head", "some", "all"]


class Connection(asyncio.Protocol):
    """`closed` is called once, when the connection is gone. `held` counts the bytes of bodies that are not streamed.

    `answer` is what is known of the answer under way.
    """

    __slots__ = (
        "_backlog",
        "_body_s",
        "_closed",
        "_deadlines",
        "_parser",
        "_passes",
        "_paused",
        "_then",
        "_waiter",
        "_want",
        "_work",
        "answer",
        "body",
        "busy",
        "idle_since_s",
        "loop",
        "reused",
        "transport",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, closed: "Callable[[Connection], None]", held: HeldBytes
    ) -> None:
        self.loop = loop
        self._closed = closed
        self.body = Body(held)
        self._body_s = 0.0
        self._deadlines = Deadlines(loop)
        self._parser: AnswerParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._want: _Want = "nothing"
        self._then: Callable[[Connection], None] | None = None
        self._passes: Callable[[bytes], bool] | None = None
        self._backlog = b""
        self._work = 0
        self._paused = False
        self.answer = Answer()
        self.transport: asyncio.Transport | None = None
        self.reused = False
        self.busy = False
        self.idle_since_s = 0.0

    # What a user of the connection does, in this order.

    def send(
        self,
        request: bytes,
        first_byte_s: float,
        total_s: float,
        max_bytes: int,
        body_s: float = 0.0,
        then: "Callable[[Connection], None] | None" = None,
    ) -> None:
        """Begins an exchange. Its answer must have begun after `first_byte_s` and ended after `total_s`.

        `then` is called once when the answer is here whole or has failed: `whole` does not wait any more. For it the
        body may take `body_s` after the head.
        """
        transport, parser = self.transport, self._parser
        if transport is None or parser is None:
            raise UpstreamError("reset", stale=self.reused)
        self.busy = True
        self.answer = parser.answer = Answer()
        self.body.begin(max_bytes)
        self._body_s = body_s
        self._then = then
        self._deadlines.begin(first_byte_s, total_s, self._rang)
        transport.write(request)

    async def head(self) -> None:
        """Waits for the status and headers of `answer`."""
        if not self.answer.headed:
            await self._wait("head")

    def hold(self, idle_s: float, *, parts: bool) -> None:
        """Sets time limits before `whole`: an answer in `parts` may not fall silent for `idle_s`; another has
        as long in all.
        """
        if not self.answer.complete:
            self._deadlines.hold(idle_s, self._rang, parts=parts)

    async def whole(self) -> bytes:
        """Waits for the whole answer: its body."""
        if not self.answer.complete:
            await self._wait("all")
        return self.content()

    def content(self) -> bytes:
        """The body of an answer that is here whole."""
        if self.answer.error is not None:
            raise self.answer.error.fresh
        return self.body.held

    @property
    def stale(self) -> bool:
        """Tells whether it was closed before any of the answer came, after it had been kept."""
        return self.answer.error is not None and self.answer.error.stale

    def stream(self, idle_s: float) -> None:
        """Reads the answer as it comes from here on, and no two parts of it may be `idle_s` apart."""
        self.body.stream()
        self._deadlines.stream(idle_s, self._rang)

    async def some(self, passes: Callable[[bytes], bool] | None = None) -> bytes:
        """Bytes that have come since the last call, at least a byte; empty at the end.

        `passes` is given what comes meanwhile, at once, for as long as it takes that (True): to wake who waits costs
        another turn of the event loop.
        """
        body = self.body
        if not body.waits:
            if not self.answer.complete:
                self._passes = passes
                try:
                    await self._wait("some")
                finally:
                    self._passes = None
            if not body.waits and self.answer.error is not None:
                raise self.answer.error.fresh
        data = body.read()
        if self._paused and not self._backlog:
            self._read_on()
        return data

    @property
    def passed_on(self) -> bool:
        """Tells whether somebody may have seen of the answer already."""
        return self.body.streamed

    def finish(self) -> bool:
        """Ends the exchange, whatever its state; True where the connection can take another."""
        self.busy = False
        self._then = None
        self.body.drop()
        answer = self.answer
        again = answer.complete and answer.error is None and answer.keep_alive and self.transport is not None
        if not again:
            self.abort()
        elif self._paused:
            self._read_on()
        return again

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def fail(self, error: UpstreamError) -> None:
        """Ends the exchange under way with `error`, which whoever waits for it is told."""
        if self.answer.complete:
            return
        self.answer.error = error
        self.answer.complete = True
        self._wake()
        if self._then is not None:
            self.loop.call_soon(self._tell)
        self.abort()

    # How it waits.

    async def _wait(self, want: _Want) -> None:
        if self.answer.error is None:
            self._want = want
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._want = "nothing"
        if self.answer.error is not None and not (want == "some" and self.body.waits):
            raise self.answer.error.fresh

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _tell(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(self)

    def _rang(self) -> None:
        """The deadlines' timer."""
        deadlines, answer = self._deadlines, self.answer
        deadlines.rung()
        if not self.busy or answer.complete:
            return
        now_s = self.loop.time() + TICK_S
        begun = answer.body_at_s > 0
        due_s = deadlines.due_s(now_s, headed=answer.headed, begun=begun, waits=self._waiter is not None)
        if now_s < due_s:
            deadlines.ring(due_s, self._rang)
            return
        kind: Kind = "first-byte" if not begun and now_s < deadlines.total_s else "total"
        self.fail(UpstreamError(kind))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._parser = AnswerParser(self._add, self._headed, self._ended)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if self._backlog:
            self._backlog += data
        elif not self.busy or parser is None:
            # Nobody asked: whatever this is, it must not become the answer to the next request.
            self.answer.keep_alive = False
            self.abort()
        elif self.answer.complete:
            self.answer.keep_alive = False
        elif not self.answer.headed and (whole := parser.at_once(data)) is not None:
            self._came_at_once(whole)
        elif len(data) > SLICE_BYTES:
            self._backlog = data
            self._go_on()
        else:
            self._take(data)
            self._taken()

    def _came_at_once(self, whole: bytes) -> None:
        then = self._then
        if then is None:
            # Whoever waits has it for a while.
            self._add(whole)
            self._ended()
        elif self.body.take_at_once(whole):
            self._then = None
            self.answer.complete = True
            then(self)
        else:
            self.fail(UpstreamError("too-large"))

    def _go_on(self) -> None:
        """Takes of what came as much as one turn of the loop is for: bytes cost little, chunks much."""
        parser, answer = self._parser, self.answer
        data, at = self._backlog, 0
        self._work = 0
        if parser is not None:
            parser.lines = 0
        while at < len(data) and parser is not None and self._reads:
            if self._work + parser.lines >= CHUNKS_A_TURN:
                break
            self._take(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES
        self._backlog = data[at:] if self._reads else b""
        if answer.complete and at < len(data):
            # Nobody asked for what follows an answer.
            answer.keep_alive = False
        if self._backlog:
            self._pause()
            self.loop.call_soon(self._go_on)
        elif self._paused and not self.body.full:
            self._read_on()
        self._taken()

    @property
    def _reads(self) -> bool:
        return self.busy and self.transport is not None and not self.answer.complete

    def _pause(self) -> None:
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def _read_on(self) -> None:
        self._paused = False
        if self.transport is not None:
            self.transport.resume_reading()

    def _take(self, data: bytes) -> None:
        parser, deadlines = self._parser, self._deadlines
        if parser is None:
            return
        if deadlines.idle_s or deadlines.held_s:
            deadlines.seen_s = self.loop.time()
        error = parser.feed(data)
        if error is not None:
            self.fail(error)

    def _taken(self) -> None:
        """Tells who is called at the end, where there is one; the body is not waited for without end. Passes on what
        has come, where that can be done at once."""
        if self._passes is not None:
            if self.body.waits and not self.answer.complete:
                self._pass_on(self._passes)
        elif self._then is not None:
            if self.answer.complete:
                self._tell()
            elif self.answer.headed and self._body_s:
                self.hold(self._body_s, parts=False)
                self._body_s = 0.0

    def _pass_on(self, passes: Callable[[bytes], bool]) -> None:
        data, passed = self.body.read(), False
        try:
            passed = passes(data)
            if not passed:
                self.body.put_back(data)
                self._wake()
        except Exception as error:  # noqa: BLE001 (whoever waits is told)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(error)
        if not passed:
            # From here on all is for whoever waits, who has yet to wake.
            self._passes = None
        elif self._paused and not self._backlog:
            self._read_on()

    def eof_received(self) -> None:
        return None

    def forget(self) -> None:
        """Drops its transport and its parser, which hold it in turn: only a collection of garbage would end that."""
        self.transport = None
        if self._parser is not None:
            self._parser.forget()
            self._parser = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self._deadlines.end()
        answer = self.answer
        if self.busy and not answer.complete:
            # Without a length the end of the connection is the end of the body (RFC 9112, 6.3); a reset is
            # none.
            if answer.headed and not answer.framed and exc is None:
                answer.complete = True
                answer.keep_alive = False
                self._wake()
                self._tell()
            else:
                # Kept, and closed before a byte: most likely the engine's keep-alive ran out as the request
                # left, and it never saw it.
                self.fail(UpstreamError("reset", stale=self.reused and answer.head_bytes == 0))
        self._closed(self)

    # What the parser tells.

    def _headed(self) -> None:
        if self._want == "head":
            self._wake()

    def _add(self, part: bytes) -> None:
        answer, body = self.answer, self.body
        if answer.complete:
            return
        if not body.begun:
            answer.body_at_s = self.loop.time()
        self._work += 1
        error = body.add(part)
        if error is not None:
            self.fail(error)
        elif body.streamed:
            if self._want == "some":
                if self._passes is None:
                    self._wake()
            elif body.full:
                self._pause()

    def _ended(self) -> None:
        self.answer.complete = True
        self._wake()
