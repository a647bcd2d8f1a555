"""One keep-alive HTTP/1.1 connection to an engine: bytes of a request out, status, headers and body back.

States: idle → (send) waiting for the head → body → idle again, or closed. One exchange at a time; at most one waiter,
or one function that is called at the end, and one timer. The body is kept until it is read; past `HIGH_WATER` bytes
unread of a streamed answer the socket is not read from, so that a slow client slows the engine instead of filling
memory.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

import httptools

from cascadia.clients.engines.held_bytes import HeldBytes, Holding
from cascadia.router.upstream.errors import Kind, UpstreamError

HIGH_WATER = 64 * 1024
SLICE_BYTES = 16 * 1024
"""Fed to the parser at once where more came."""
CHUNKS_A_TURN = 2048
"""Of a body, each of which takes a microsecond; what came beyond is for the event loop's next turn."""
MAX_HEAD_BYTES = 64 * 1024
TICK_S = 0.002
"""uvloop's clock counts milliseconds: a timer may ring while its time is not quite reached."""

_Want = Literal["nothing", "head", "some", "all"]


class Connection(asyncio.Protocol):
    """`closed` is called once, when the connection is gone. `held` counts the bytes of bodies that are not streamed."""

    __slots__ = (
        "_backlog",
        "_body_due",
        "_body_s",
        "_buffer",
        "_buffered",
        "_closed",
        "_complete",
        "_deadline_s",
        "_error",
        "_first_due_s",
        "_framed",
        "_head_bytes",
        "_held",
        "_held_s",
        "_holding",
        "_idle_s",
        "_max_bytes",
        "_parser",
        "_paused",
        "_rings_s",
        "_seen_s",
        "_size",
        "_then",
        "_timer",
        "_waiter",
        "_want",
        "_work",
        "body_at_s",
        "busy",
        "content_type",
        "headed",
        "idle_since_s",
        "keep_alive",
        "loop",
        "retry_after",
        "reused",
        "status",
        "transport",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, closed: "Callable[[Connection], None]", held: HeldBytes
    ) -> None:
        self.loop = loop
        self._holding = Holding(held)
        self._closed = closed
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._then: Callable[[Connection], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._backlog = b""
        self._work = 0
        self._held = bytearray()
        self.transport: asyncio.Transport | None = None
        self.reused = False
        self.busy = False
        self.idle_since_s = 0.0
        self._reset()

    def _reset(self) -> None:
        self._buffer.clear()
        self._buffered = 0
        self._backlog = b""
        self._held = bytearray()
        self._holding.release()
        self._want: _Want = "nothing"
        self._error: UpstreamError | None = None
        self._complete = False
        self._framed = False
        self._paused = False
        self._size = 0
        self._head_bytes = 0
        self._max_bytes = 0
        self._idle_s = 0.0
        self._held_s = 0.0
        self._seen_s = 0.0
        self._deadline_s = 0.0
        self._first_due_s = 0.0
        self._body_s = 0.0
        self._body_due = False
        self.body_at_s = 0.0
        self.headed = False
        self.status = 0
        self.content_type = b""
        self.retry_after = b""
        self.keep_alive = True

    # What a user of the connection does, in this order.

    def send(
        self,
        request: bytes,
        *,
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
        if self.transport is None:
            raise UpstreamError("reset", stale=self.reused)
        self._reset()
        self.busy = True
        self._max_bytes = max_bytes
        self._then = then
        self._body_s = body_s
        now_s = self.loop.time()
        self._deadline_s = now_s + total_s
        self._first_due_s = min(now_s + first_byte_s, self._deadline_s)
        self._arm(self._first_due_s)
        self.transport.write(request)

    async def head(self) -> None:
        """Waits for `status`, `content_type` and `retry_after`."""
        if not self.headed:
            await self._wait("head")

    def hold(self, idle_s: float, *, parts: bool) -> None:
        """Sets time limits before `whole`: an answer in `parts` may not fall silent for `idle_s`; another has
        as long in all.
        """
        if self._complete:
            return
        now_s = self.loop.time()
        if parts:
            self._held_s = idle_s
            self._seen_s = now_s
        self._deadline_s = self._deadline_s if parts else min(self._deadline_s, now_s + idle_s)
        self._arm(min(now_s + idle_s, self._deadline_s))

    async def whole(self) -> bytes:
        """Waits for the whole answer: its body."""
        if not self._complete:
            await self._wait("all")
        return self.answer()

    def answer(self) -> bytes:
        """The body of an answer that is here whole."""
        if self._error is not None:
            raise self._error
        return bytes(self._held)

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def stale(self) -> bool:
        """Tells whether it was closed before any of the answer came, after it had been kept."""
        return self._error is not None and self._error.stale

    def stream(self, idle_s: float) -> None:
        """Reads the answer as it comes from here on, and no two parts of it may be `idle_s` apart."""
        self._idle_s = idle_s
        if self._held:
            self._buffer.append(bytes(self._held))
            self._buffered += len(self._held)
            self._held = bytearray()
        self._holding.release()
        self._seen_s = self.loop.time()
        self._arm(min(self._seen_s + idle_s, self._deadline_s))

    async def some(self) -> bytes:
        """Bytes that have come since the last call, at least a byte; empty at the end."""
        if not self._buffer and not self._complete:
            await self._wait("some")
        if not self._buffer and self._error is not None:
            raise self._error
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        if self._paused and not self._backlog:
            self._read_on()
        return data

    @property
    def passed_on(self) -> bool:
        """Tells whether somebody may have seen of the answer already."""
        return self.headed and self._idle_s > 0

    def finish(self) -> bool:
        """Ends the exchange, whatever its state; True where the connection can take another."""
        self.busy = False
        self._then = None
        self._held = bytearray()
        self._holding.release()
        again = self._complete and self._error is None and self.keep_alive and self.transport is not None
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
        if self._complete:
            return
        self._error = error
        self._complete = True
        self._wake()
        if self._then is not None:
            self.loop.call_soon(self._tell)
        self.abort()

    # How it waits.

    async def _wait(self, want: _Want) -> None:
        if self._error is None:
            self._want = want
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._want = "nothing"
        if self._error is not None and not (want == "some" and self._buffer):
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _tell(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(self)

    def _arm(self, due_s: float) -> None:
        """Sets a timer that calls `_expired` by then. It may be called early: a timer outlives its exchange,
        since most are never due, and setting and cancelling one for each costs more than to look again now and
        then.
        """
        if self._timer is None or due_s < self._rings_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at(due_s, self._expired)
            self._rings_s = due_s

    def _expired(self) -> None:
        self._timer = None
        if not self.busy or self._complete:
            return
        now_s = self.loop.time() + TICK_S
        due_s = self._due_s(now_s)
        if now_s < due_s:
            self._arm(due_s)
            return
        kind: Kind = "first-byte" if not self.headed and now_s < self._deadline_s else "total"
        self.fail(UpstreamError(kind))

    def _due_s(self, now_s: float) -> float:
        """Instant by when something must have come."""
        if not self.headed:
            return self._first_due_s
        idle_s = self._idle_s or self._held_s
        if not idle_s:
            return self._deadline_s
        # The idle limit of a stream holds while somebody waits for more: a slow client is not the engine's fault.
        since_s = now_s if self._idle_s and self._waiter is None else self._seen_s
        return min(since_s + idle_s, self._deadline_s)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._backlog:
            self._backlog += data
        elif len(data) > SLICE_BYTES and self.busy:
            self._backlog = data
            self._go_on()
        else:
            self._take(data)
            self._taken()

    def _go_on(self) -> None:
        """Takes of what came as much as one turn of the loop is for: bytes cost little, chunks much."""
        self._work = 0
        data, at = self._backlog, 0
        while at < len(data) and self._work < CHUNKS_A_TURN and self.transport and not self._complete:
            self._take(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES
        self._backlog = b"" if self._complete or self.transport is None else data[at:]
        if self._complete and at < len(data):
            # Nobody asked for what follows an answer.
            self.keep_alive = False
        if self._backlog:
            self._pause()
            self.loop.call_soon(self._go_on)
        elif self._paused and self._buffered <= HIGH_WATER:
            self._read_on()
        self._taken()

    def _pause(self) -> None:
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def _read_on(self) -> None:
        self._paused = False
        if self.transport is not None:
            self.transport.resume_reading()

    def _take(self, data: bytes) -> None:
        if not self.busy:
            # Nobody asked: whatever this is, it must not become the answer to the next request.
            self.keep_alive = False
            self.abort()
            return
        if not self.headed:
            self._head_bytes += len(data)
        elif self._idle_s or self._held_s:
            self._seen_s = self.loop.time()
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.fail(UpstreamError("protocol"))
            return
        if not self.headed and self._head_bytes > MAX_HEAD_BYTES:
            self.fail(UpstreamError("protocol", "endless headers"))

    def _taken(self) -> None:
        """Tells who is called at the end, where there is one; the body is not waited for without end."""
        if self._then is not None:
            if self._complete:
                self._tell()
            elif self.headed and not self._body_due:
                self._body_due = True
                self.hold(self._body_s, parts=False)

    def eof_received(self) -> None:
        return None

    def forget(self) -> None:
        """Drops its transport and its parser, which hold it in turn: only a collection of garbage would end
        that.
        """
        self.transport = None
        self._parser = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.busy and not self._complete:
            if self.headed and not self._framed and exc is None:
                self._complete = True
                self.keep_alive = False
                self._wake()
                self._tell()
            else:
                stale = self.reused and self._head_bytes == 0
                self.fail(UpstreamError("reset", stale=stale))
        self._closed(self)

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self.content_type = value
        elif name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            self._framed = True
        elif name == b"retry-after":
            self.retry_after = value

    def on_headers_complete(self) -> None:
        if self._complete:
            # Nobody asked for a second answer.
            self.keep_alive = False
            return
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self.keep_alive = self._parser.should_keep_alive()
        self.headed = True
        if self._want == "head":
            self._wake()

    def on_body(self, body: bytes) -> None:
        if self._complete:
            return
        if not self._size:
            self.body_at_s = self.loop.time()
        self._size += len(body)
        self._work += 1
        if self._idle_s:
            self._buffer.append(body)
            self._buffered += len(body)
            if self._want == "some":
                self._wake()
            elif self._buffered > HIGH_WATER:
                self._pause()
        elif self._size > self._max_bytes:
            self.fail(UpstreamError("too-large"))
        elif not self._holding.take(len(body)):
            self.fail(UpstreamError("exhausted", "too many bytes of answers are held"))
        else:
            # One array: a list of parts costs a multiple of what they hold.
            self._held += body

    def on_message_complete(self) -> None:
        if self.status < 200:
            return
        self._complete = True
        self._wake()
