"""HTTP/1.1 as clients speak it: requests are answered one after another.

Each begins when it is here whole and all before it on the connection are answered. What cannot be read is refused, and
is the connection's last.
"""

import asyncio

from cascadia.clients.engines.held_bytes import Holding
from cascadia.router.http.contracts import Request, ServerContract
from cascadia.router.http.intake import Intake
from cascadia.router.http.parser import RequestParser
from cascadia.router.http.patience import Patience, State
from cascadia.router.http.unread import seen_at
from cascadia.router.http.wire import CLOSE_LINE, CONTINUE, JSON_LINE, status_line
from cascadia.router.openai.errors import ApiError

BEGUN_A_TURN = 16
"""Requests of one connection that are begun in a turn of the event loop."""
PROBES_S = (0.03, 0.3, 3.0)
"""After a client has sent its last: a reset takes a round trip to come."""
CROWDED = 0.9
"""Share of the clients that may be connected."""
REFUSED_MAX = 32
"""Clients beyond the limit that are told so at the same time."""


class ClientConnection(asyncio.Protocol):
    """One connection. `running` is the request that is being answered; `full`: the client is far behind with reading.

    Its parts: `Intake` takes bytes in turns, `RequestParser` makes requests of them, `Patience` counts how long the
    client lets wait.
    """

    __slots__ = (
        "_ended",
        "_holding",
        "_intake",
        "_lingers",
        "_probed_s",
        "_pumping",
        "_room",
        "_unread",
        "full",
        "full_s",
        "gone",
        "loop",
        "parser",
        "patience",
        "running",
        "server",
        "transport",
    )

    def __init__(self, server: ServerContract) -> None:
        self.server = server
        self.loop = server.loop
        self.patience = Patience(server.loop, server.limits)
        self.parser = RequestParser(self)
        self._intake = Intake(self, self.parser)
        self.running: Request | None = None
        self.full = False
        self.gone = True
        self._room: asyncio.Future[None] | None = None
        self._pumping = False
        self._unread = False
        self._lingers = False
        self._ended = False
        self._probed_s = 0.0
        self.full_s = 0.0
        """Since when it is."""
        self._holding = Holding(server.held)
        self.transport: asyncio.Transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.gone = False
        self.patience.begin()
        self.server.connections.add(self)
        most = self.server.limits.max_connections
        if len(self.server.connections) > most:
            if len(self.server.connections) > most + REFUSED_MAX:
                # Even to be refused takes a descriptor for as long as the client goes on sending.
                self.transport.abort()
                return
            self.refuse(ApiError(503, "too_many_connections", "Too many connections.", retry_after_s=1))

    def data_received(self, data: bytes) -> None:
        parser, request = self.parser, None
        if parser.between and self.running is None and not self.full and not parser.ready:
            request = parser.at_once(data)
        if request is None:
            self._intake.add(data)
        else:
            self.running = request
            self.server.service.begin(request)

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
        self.gone = True
        self.parser.forget()
        self._intake.forget()
        self.server.lost(self)
        self.resume_writing()
        running, self.running = self.running, None
        if running is not None:
            running.leave()

    def pause_writing(self) -> None:
        self.full = True
        self.full_s = self.loop.time()
        size = self.transport.get_write_buffer_size()
        self.patience.holds(size)
        if not self._holding.take(size):
            self.drop()

    def drop(self) -> None:
        """Breaks off what the client does not read."""
        self._holding.release()
        self.full = False
        self.transport.abort()

    def resume_writing(self) -> None:
        self.full = False
        self._holding.release()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
        self.pump()

    # What has come is answered in turn.

    def pump(self) -> None:
        """Begins what is ready, as long as nothing is being answered and the client reads."""
        if self._pumping:
            return
        parser = self.parser
        self._pumping = True
        try:
            begun = 0
            while parser.ready and self.running is None and not self.full and not self.gone:
                if begun == BEGUN_A_TURN:
                    # Those that are refused are over at once, and others wait.
                    self.loop.call_soon(self.pump)
                    break
                begun += 1
                request = self.running = parser.ready.pop(0)
                request.begin()
        finally:
            self._pumping = False
        self.hold_reading()
        if self.running is None and not parser.ready:
            if parser.refusal is not None:
                self._say_refusal()
            elif parser.coming is not None:
                self.invite()

    def finished(self, *, lasting: bool) -> None:
        """The running request's answer is written, and the connection's last where it is not `lasting`."""
        self.running = None
        self.patience.since_s = self.loop.time()
        if self.gone:
            return
        parser = self.parser
        if not lasting or (self._ended and not parser.ready):
            parser.stop()
            self.transport.close()
        elif parser.ready or parser.refusal or parser.coming or self._unread:
            self.pump()

    def abandon(self) -> None:
        """The running request has no end that its client could be told otherwise."""
        self.running = None
        if not self.gone:
            self.transport.abort()

    def refuse(self, error: ApiError) -> None:
        """Answers with `error` after all that was ready, reads no more, and closes."""
        self.parser.refuse(error)
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
        if self._unread and self.running is not None and not self.transport.is_closing():
            self._look(self.running, now_s)
        if self.running is not None and not (self.full or self._lingers or self.transport.is_closing()):
            return
        state = self._state
        held = self.transport.get_write_buffer_size() if state == "writing" else 0
        if not self.patience.is_over(state, now_s, held):
            return
        if state == "head":
            self.refuse(ApiError(408, "too_slow", "The request did not come in time."))
        elif state in ("idle", "parting"):
            self.transport.close()
        else:
            self.transport.abort()

    def _look(self, running: Request, now_s: float) -> None:
        """Looks whether a client that has asked on, and is not read from, waits for the answer that is `running`."""
        seen = seen_at(self.transport.get_extra_info("socket").fileno())
        if seen == "gone":
            self.transport.abort()
        elif seen != "there" and now_s - self._probed_s >= PROBES_S[-1]:
            # What is sent to one that has gone comes back as a reset, and the next look finds it.
            self._probed_s = now_s
            if not running.probe() and seen == "ended":
                self.transport.abort()

    @property
    def _state(self) -> State:
        if self.full or self.transport.is_closing():
            return "writing"
        if self._lingers:
            return "lingering"
        if self.running is not None or self._unread:
            return "answering"
        if self.parser.coming is not None:
            return "body"
        if self.parser.begun:
            return "head"
        return "parting" if self.server.closing or self._crowded else "idle"

    @property
    def _crowded(self) -> bool:
        """Tells whether so many are connected that who only may ask again takes the place of who would ask now."""
        return len(self.server.connections) > CROWDED * self.server.limits.max_connections

    def drain(self) -> None:
        """Lets an idle client ask once more, for a while that begins now."""
        if self._state == "parting":
            self.patience.begin()

    def invite(self) -> None:
        """A client that asked whether to go on is told to."""
        coming = self.parser.coming
        if coming is not None and coming.expects and not self.parser.body_begun:
            coming.expects = False
            self.write(CONTINUE)

    def hold_reading(self) -> None:
        """A client that asks on before it was answered is not read from meanwhile, nor one that sends faster than it
        is taken up."""
        hold = bool(self.parser.ready or self._intake.backlog)
        if hold != self._unread and not self.gone and not self.transport.is_closing():
            self._unread = hold
            if hold:
                self.transport.pause_reading()
            else:
                self.patience.begin()
                self.transport.resume_reading()

    def _say_refusal(self) -> None:
        parser = self.parser
        error, parser.refusal = parser.refusal, None
        more = b"" if parser.coming is None else parser.coming.more
        if error is None or self.gone or self.transport.is_closing():
            return
        parser.stop()
        self._lingers = True
        self.patience.begin()
        retry = b"retry-after: %d\r\n" % error.retry_after_s if error.retry_after_s is not None else b""
        length = b"content-length: %d\r\n\r\n" % len(error.body)
        head = status_line(error.status) + JSON_LINE + retry + more + self.server.dates.line() + CLOSE_LINE
        self.transport.write(head + length + error.body)
        # Half closed, and read on for a while: closed with bytes unread it is reset, and the refusal may be
        # lost (RFC 9112, 9.6).
        self.transport.write_eof()
