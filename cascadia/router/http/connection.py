"""HTTP/1.1 as clients speak it: requests are answered one after another.

Each begins when it is here whole and all before it on the connection are answered. What cannot be read is refused, and
is the connection's last.
"""

import asyncio

from cascadia.router.http.contracts import Doors
from cascadia.router.http.parser import Reading
from cascadia.router.http.wire import CLOSE_LINE, CONTINUE, JSON_LINE, status_line
from cascadia.router.openai.errors import ApiError

KEEP_ALIVE_S = 75.0
LINGER_S = 2.0
"""What a refused client still sends is read and dropped for this long: a reset would cost it the refusal."""


BEGUN_A_TURN = 16
"""Requests of one connection that are begun in a turn of the event loop."""
PROBES_S = (0.03, 0.3, 3.0)
"""After a client has sent its last: a reset takes a round trip to come."""
REFUSED_MAX = 32
"""Clients beyond the limit that are told so at the same time."""


class Front(Reading):
    """One connection. `running` is the request that is being answered."""

    __slots__ = (
        "_ended",
        "_held_bytes",
        "_lingers",
        "_pumping",
        "_room",
        "_unread",
        "full",
        "gone",
        "transport",
    )

    def __init__(self, doors: Doors) -> None:
        super().__init__(doors)
        self._pumping = False
        self._unread = False
        self._room: asyncio.Future[None] | None = None
        self.full = False
        self.gone = True
        self._lingers = False
        self._ended = False
        self._held_bytes = 0
        self.transport: asyncio.Transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.gone = False
        self.since_s = self.loop.time()
        self.doors.connections.add(self)
        if len(self.doors.connections) > self._limits.max_connections:
            if len(self.doors.connections) > self._limits.max_connections + REFUSED_MAX:
                # Even to be refused takes a descriptor for as long as the client goes on sending.
                self.transport.abort()
                return
            self.refuse(ApiError(503, "too_many_connections", "Too many connections.", retry_after_s=1))

    def eof_received(self) -> bool:
        """A client that sends no more may have gone, or only be done with asking. What is sent to one that has gone
        comes back as a reset, at the next write at the latest: so it is sent something that means nothing, a few times.
        """
        self._ended = True
        return self._asks_on(0)

    def _asks_on(self, probes: int) -> bool:
        """Tells whether the client may still be there for its answer."""
        running = self.running
        if self.gone or running is None or not running.probe():
            return False
        if probes < len(PROBES_S):
            self.loop.call_later(PROBES_S[probes], self._asks_on, probes + 1)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.gone = self._deaf = True
        # It holds our methods, and so us: only a collection of garbage would end that.
        del self._parser
        self.doors.lost(self)
        self._backlog = b""
        self._ready.clear()
        self.coming = None
        self.resume_writing()
        running, self.running = self.running, None
        if running is not None:
            running.leave()

    def pause_writing(self) -> None:
        self.full = True
        self._held_bytes = self.transport.get_write_buffer_size()
        self.since_s = self.loop.time()

    def resume_writing(self) -> None:
        self.full = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
        self.pump()

    # What has come is answered in turn.

    def pump(self) -> None:
        """Begins what is ready, as long as nothing is being answered and the client reads."""
        if self._pumping:
            return
        self._pumping = True
        try:
            begun = 0
            while self._ready and self.running is None and not self.full and not self.gone:
                if begun == BEGUN_A_TURN:
                    # Those that are refused are over at once, and others wait.
                    self.loop.call_soon(self.pump)
                    break
                begun += 1
                request = self.running = self._ready.pop(0)
                request.begin()
        finally:
            self._pumping = False
        self.hold_reading()
        if self.running is None and not self._ready:
            if self._refusal is not None:
                self._say_refusal()
            elif self.coming is not None:
                self.invite()

    def finished(self, *, lasting: bool) -> None:
        """The running request's answer is written, and the connection's last where it is not `lasting`."""
        self.running = None
        self.since_s = self.loop.time()
        if self.gone:
            return
        if not lasting or self.doors.closing or (self._ended and not self._ready):
            self._deaf = True
            self._ready.clear()
            self.coming = None
            self.transport.close()
        elif self._ready or self._refusal or self.coming or self._unread:
            self.pump()

    def abandon(self) -> None:
        """The running request has no end that its client could be told otherwise."""
        self.running = None
        if not self.gone:
            self.transport.abort()

    def refuse(self, error: ApiError) -> None:
        """Answers with `error` after all that was ready, reads no more, and closes."""
        self._refusal = error
        self.pump()

    def write(self, data: bytes) -> None:
        if not self.gone:
            self.transport.write(data)

    async def room(self) -> None:
        """Waits until the client has read, where it is far behind."""
        if self.full and not self.gone:
            self._room = self.loop.create_future()
            await self._room

    def close_overdue(self, now_s: float) -> None:
        """Closes the connection where nothing has come of it for too long; the sweep asks this time and again."""
        waited_s = now_s - self.since_s
        limits = self._limits
        if self.full or self.transport.is_closing():
            held = self.transport.get_write_buffer_size()
            if held != self._held_bytes:
                self._held_bytes, self.since_s = held, now_s
            elif waited_s > limits.idle_s:
                self.transport.abort()
        elif self._lingers:
            if waited_s > LINGER_S:
                self.transport.abort()
        elif self.running is not None or self._unread:
            return
        elif self.coming is not None:
            if waited_s > limits.body_s:
                self.transport.abort()
        elif self._begun:
            if waited_s > limits.head_s:
                self.refuse(ApiError(408, "too_slow", "The request did not come in time."))
        elif waited_s > KEEP_ALIVE_S:
            self.transport.close()

    def drain(self) -> None:
        """Closes the connection, at once or when what was asked is answered."""
        if self.running is None and not self._ready and self.coming is None and not self._lingers:
            self.transport.close()

    def invite(self) -> None:
        """A client that asked whether to go on is told to."""
        if self.coming is not None and self.coming.expects and not self._size:
            self.coming.expects = False
            self.write(CONTINUE)

    def hold_reading(self) -> None:
        """A client that asks on before it was answered is not read from meanwhile, nor one that sends faster than it
        is taken up."""
        hold = bool(self._ready or self._backlog)
        if hold != self._unread and not self.gone and not self.transport.is_closing():
            self._unread = hold
            if hold:
                self.transport.pause_reading()
            else:
                self.since_s = self.loop.time()
                self.transport.resume_reading()

    def _say_refusal(self) -> None:
        error, self._refusal = self._refusal, None
        more = b"" if self.coming is None else self.coming.more
        if error is None or self.gone or self.transport.is_closing():
            return
        self._deaf = self._lingers = True
        self.coming = None
        self._body = []
        self.since_s = self.loop.time()
        retry = b"retry-after: %d\r\n" % error.retry_after_s if error.retry_after_s is not None else b""
        length = b"content-length: %d\r\n\r\n" % len(error.body)
        head = status_line(error.status) + JSON_LINE + retry + more + self.doors.dates.line() + CLOSE_LINE
        self.transport.write(head + length + error.body)
        self.transport.write_eof()
