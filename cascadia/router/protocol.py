"""HTTP/1.1 as clients speak it: requests are read, held to their limits, and answered one after another.

A request of a path in `APIS` becomes an `Exchange`, any other an `Errand` for FastAPI. Both begin when they are here
whole and all before them on the connection are answered. What cannot be read is refused, and is the connection's last.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import httptools

from cascadia.router.asgi import Application, Errand
from cascadia.router.exchange import Exchange
from cascadia.router.failures import ApiError
from cascadia.router.requests import APIS
from cascadia.router.wire import CLOSE_LINE, CONTINUE, JSON_LINE, Dates, status_line

if TYPE_CHECKING:
    from cascadia.router.settings import Limits

HOT_PATHS = {path.encode("ascii"): path for path in APIS}
KEEP_ALIVE_S = 75.0
PATIENT_BYTES = 64 * 1024
"""A body up to this size is read before anybody asks for the key, so that a refusal leaves the connection whole."""
LINGER_S = 2.0
"""What a refused client still sends is read and dropped for this long: a reset would cost it the refusal."""
_UNREADABLE = ApiError(400, "invalid_http", "This is not an HTTP request that can be read.")


class Hot(Protocol):
    """Serves requests of `APIS`: `Service`."""

    def begin(self, exchange: Exchange) -> None: ...

    def turns_away(self, exchange: Exchange) -> ApiError | None:
        """Why a request is refused by its head alone, before a body that is large has come."""


class Doors(Protocol):
    """What all connections share: `Server`."""

    limits: "Limits"
    loop: asyncio.AbstractEventLoop
    connections: "set[Front]"
    dates: Dates
    next_id: Callable[[], bytes]

    def lost(self, front: "Front") -> None:
        """The connection is gone."""

    @property
    def closing(self) -> bool:
        """Whether connections are closed as soon as they are idle."""

    @property
    def draining(self) -> bool:
        """Whether each answer is the last of its connection, so that clients move on before the port is closed."""

    @property
    def service(self) -> "Hot":
        """Where requests of `APIS` go."""

    @property
    def face(self) -> Application: ...


class Request(Protocol):
    """What a connection has to do with: `Exchange` and `Errand`."""

    body: bytes
    length: int | None
    expects: bool

    def begin(self) -> None:
        """It is here whole, and its answer may be written."""

    def leave(self) -> None:
        """Its client is gone."""


class Front(asyncio.Protocol):
    """One connection. `coming` is the request that is not here whole yet, `running` the one that is being answered."""

    __slots__ = (
        "_begun",
        "_body",
        "_deaf",
        "_fed",
        "_head_bytes",
        "_headers",
        "_held_bytes",
        "_in_head",
        "_left_bytes",
        "_limits",
        "_lingers",
        "_parser",
        "_pumping",
        "_ready",
        "_refusal",
        "_room",
        "_size",
        "_unread",
        "_url",
        "_waste",
        "coming",
        "doors",
        "full",
        "gone",
        "loop",
        "running",
        "since_s",
        "transport",
    )

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self._limits = doors.limits
        self.loop = doors.loop
        self._parser = httptools.HttpRequestParser(self)
        self._ready: list[Request] = []
        self.running: Request | None = None
        self.coming: Request | None = None
        self._in_head = False
        self._refusal: ApiError | None = None
        self._deaf = False
        self._pumping = False
        self._unread = False
        self._room: asyncio.Future[None] | None = None
        self.full = False
        self.gone = True
        self._lingers = False
        self._held_bytes = 0
        self._left_bytes = 0
        self._begun = True
        self._fed = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._head_bytes = self._size = self._waste = 0
        self.transport: asyncio.Transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.gone = False
        self.since_s = self.loop.time()
        self._in_head = True
        self.doors.connections.add(self)
        if len(self.doors.connections) > self._limits.max_connections:
            self.refuse(ApiError(503, "too_many_connections", "Too many connections.", retry_after_s=1))

    def data_received(self, data: bytes) -> None:
        if self._deaf or self._refusal is not None:
            return
        if self._left_bytes:
            self._add_upgraded(data)
            return
        self._fed = len(data)
        size = self._size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._not_upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError:
            self.refuse(_UNREADABLE)
            return
        if self._ready or self._refusal is not None:
            self.pump()
        elif self._in_head:
            self._head_bytes += len(data)
            self._begun = True
            if self._head_bytes > self._limits.max_head_bytes:
                self.refuse(ApiError(431, "head_too_large", "The request's head is too large."))
        elif self.coming is not None:
            self._partly(len(data), self._size - size)

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.gone = self._deaf = True
        # It holds our methods, and so us: only a collection of garbage would end that.
        del self._parser
        self.doors.lost(self)
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

    # httptools. Nothing is begun here: what a callback raises is told as a fault of the client's.

    def on_url(self, url: bytes) -> None:
        if not self._url:
            self._begun = True
            if self.running is None:
                self.since_s = self.loop.time()
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a chunked body is no head.
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser = self._parser
        version = parser.get_http_version()
        lasting = version == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
        method = parser.get_method()
        path = HOT_PATHS.get(self._url.partition(b"?")[0]) if method == b"POST" else None
        if path is not None:
            exchange = Exchange(self, path, self._headers, lasting=lasting, chunked=version == "1.1")
            self.coming = exchange
        else:
            self.coming = Errand(self, method, self._url, self._headers, version=version, lasting=lasting)
        headers, self._headers = self._headers, []
        url, self._url = self._url, b""
        self._size = self._waste = 0
        self.since_s = self.loop.time()
        if self._head_bytes + self._fed > self._limits.max_head_bytes:
            size = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
            if size > self._limits.max_head_bytes:
                self._refusal = ApiError(431, "head_too_large", "The request's head is too large.")
        if version not in ("1.0", "1.1"):
            self._refusal = ApiError(505, "http_version", "HTTP/1.1 is spoken here.")
        elif self.coming.length is not None and self.coming.length > self._limits.max_body_bytes:
            self._refusal = self._too_large()
        elif path is not None and (exchange.length is None or exchange.length > PATIENT_BYTES):
            self._refusal = self.doors.service.turns_away(exchange)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limits.max_body_bytes:
            self._refusal = self._too_large()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._begun = False
        self._head_bytes = 0
        request = self.coming
        if request is None or self._refusal is not None:
            return
        if request.length and self._parser.should_upgrade():
            self._left_bytes = request.length
        else:
            self._complete()

    def _complete(self) -> None:
        assert self.coming is not None
        self.coming.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._ready.append(self.coming)
        self._body = []
        self.coming = None

    # What has come is answered in turn.

    def pump(self) -> None:
        """Begins what is ready, as long as nothing is being answered and the client reads."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._ready and self.running is None and not self.full and not self.gone:
                request = self.running = self._ready.pop(0)
                request.begin()
        finally:
            self._pumping = False
        self._hold_reading(bool(self._ready))
        if self.running is None and not self._ready:
            if self._refusal is not None:
                self._say_refusal()
            elif self.coming is not None:
                self._invite()

    def finished(self, *, lasting: bool) -> None:
        """The running request's answer is written, and the connection's last where it is not `lasting`."""
        self.running = None
        self.since_s = self.loop.time()
        if self.gone:
            return
        if not lasting or self.doors.closing:
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

    def _partly(self, came: int, of_body: int) -> None:
        """After a part of a request whose head is here."""
        self._waste = 0 if of_body else self._waste + came
        if self._refusal is None and self._waste > self._limits.max_head_bytes:
            # Trailers, or extensions of chunks, without end.
            self._refusal = ApiError(431, "head_too_large", "The request's head is too large.")
        if self._refusal is not None:
            self.pump()
        elif self.running is None:
            self._invite()

    def _invite(self) -> None:
        if self.coming is not None and self.coming.expects and not self._size:
            self.coming.expects = False
            self.write(CONTINUE)

    def _hold_reading(self, hold: bool) -> None:
        """A client that asks on before it was answered is not read from meanwhile."""
        if hold != self._unread and not self.gone and not self.transport.is_closing():
            self._unread = hold
            if hold:
                self.transport.pause_reading()
            else:
                self.since_s = self.loop.time()
                self.transport.resume_reading()

    def _say_refusal(self) -> None:
        error, self._refusal = self._refusal, None
        if error is None or self.gone or self.transport.is_closing():
            return
        self._deaf = self._lingers = True
        self.coming = None
        self._body = []
        self.since_s = self.loop.time()
        retry = b"retry-after: %d\r\n" % error.retry_after_s if error.retry_after_s is not None else b""
        length = b"content-length: %d\r\n\r\n" % len(error.body)
        head = status_line(error.status) + JSON_LINE + retry + self.doors.dates.line() + CLOSE_LINE
        self.transport.write(head + length + error.body)
        self.transport.write_eof()

    def _too_large(self) -> ApiError:
        return ApiError(
            413, "body_too_large", f"The body is larger than {self._limits.max_body_bytes:,} bytes."
        )

    # Java's client asks to go on in HTTP/2 with its first request, be it a POST; the parser stops after such a head.

    def _not_upgraded(self, rest: bytes) -> None:
        """The body after such a head is taken by its length; what else follows is not read."""
        if self._left_bytes:
            self._add_upgraded(rest)
        else:
            self._deaf = True

    def _add_upgraded(self, data: bytes) -> None:
        part = data[: self._left_bytes]
        self._left_bytes -= len(part)
        self.on_body(part)
        if not self._left_bytes:
            self._deaf = True
            self._complete()
            self.pump()
