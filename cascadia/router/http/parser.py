"""Parser of a client's bytes into requests, each held to its limits while it comes.

A request of a path in `APIS` becomes an `Exchange`, any other an `Errand` for FastAPI.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import httptools

from cascadia.router.http.asgi import Errand
from cascadia.router.http.contracts import Doors, Request
from cascadia.router.http.exchange import Exchange
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import APIS

if TYPE_CHECKING:
    from cascadia.router.http.connection import Front

_HOT_PATHS = {path.encode("ascii"): api for path, api in APIS.items()}
PATIENT_BYTES = 64 * 1024
"""A body up to this size is read before anybody asks for the key, so that a refusal leaves the connection whole."""
SLICE_BYTES = 2048
"""Fed to the parser at once where more came: at most so much is read beyond what a turn is for."""
WORK_A_TURN = 1024
"""Parts of bodies, each of some microseconds, that one connection is read for in a turn of the event loop."""
REQUEST_WORK = 32
"""That many for a request."""
MOST_QUERY_BYTES = 2048
_UNCHANGED = (b"", b"identity")
_ENCODED = ApiError(415, "content_encoding", "Send the body as it is: compressed ones are not read here.")
_UNREADABLE = ApiError(400, "invalid_http", "This is not an HTTP request that can be read.")


class Reading(asyncio.Protocol, ABC):
    """Parser of one connection's bytes. `coming` is the request that is not here whole yet, `_ready` are those
    that wait for their turn, `_refusal` is what the client is told after them. `Front` answers.
    """

    __slots__ = (
        "_backlog",
        "_begun",
        "_body",
        "_deaf",
        "_fed",
        "_head_bytes",
        "_headers",
        "_in_head",
        "_left_bytes",
        "_limits",
        "_parser",
        "_ready",
        "_refusal",
        "_size",
        "_url",
        "_waste",
        "_work",
        "coming",
        "doors",
        "loop",
        "running",
        "since_s",
    )

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self._limits = doors.limits
        self.loop = doors.loop
        self._parser = httptools.HttpRequestParser(self)
        self._ready: list[Request] = []
        self.running: Request | None = None
        self.coming: Request | None = None
        self._in_head = True
        self._refusal: ApiError | None = None
        self._deaf = False
        self._left_bytes = 0
        self._begun = True
        self._backlog = b""
        self._work = 0
        self._fed = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._head_bytes = self._size = self._waste = 0
        self.since_s = 0.0

    @abstractmethod
    def pump(self) -> None:
        """Something is ready, or to be refused."""

    @abstractmethod
    def refuse(self, error: ApiError) -> None:
        """Refuses with `error` and reads no more."""

    @abstractmethod
    def invite(self) -> None:
        """A head is here, its body is not."""

    @abstractmethod
    def hold_reading(self) -> None:
        """Reads from the client, or not, as what waits here asks for."""

    def data_received(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES or self._backlog:
            waits = bool(self._backlog)
            self._backlog += data
            if not waits:
                self._go_on()
        else:
            self._take(data)

    def _go_on(self) -> None:
        """Takes of what came as much as one turn of the loop is for: bytes cost little, requests and chunks much."""
        self._work = 0
        data, at = memoryview(self._backlog), 0
        while at < len(data) and self._work < WORK_A_TURN and not self._deaf and self._refusal is None:
            size = self._slice_bytes
            self._take(bytes(data[at : at + size]))
            at += size
        ended = self._deaf or self._refusal is not None
        self._backlog = b"" if ended else bytes(data[at:])
        self.hold_reading()
        if self._backlog:
            self.loop.call_soon(self._go_on)

    @property
    def _slice_bytes(self) -> int:
        """All of a body whose length is known is one part."""
        if self.coming is None or self.coming.length is None or self._in_head:
            return SLICE_BYTES
        return max(SLICE_BYTES, self.coming.length - self._size)

    def _take(self, data: bytes) -> None:
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
        self._work += REQUEST_WORK
        parser = self._parser
        version = parser.get_http_version()
        lasting = version == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
        method = parser.get_method()
        path = self._url.partition(b"?")[0]
        api = _HOT_PATHS.get(path) if method == b"POST" else None
        front: Front = self  # type: ignore[assignment]
        if api is not None:
            chunked = version == "1.1"
            exchange = Exchange(front, path, api, self._headers, lasting=lasting, chunked=chunked)
            self.coming = exchange
        else:
            self.coming = Errand(front, method, self._url, self._headers, version=version, lasting=lasting)
        headers, self._headers = self._headers, []
        url, self._url = self._url, b""
        self._size = self._waste = 0
        self.since_s = self.loop.time()
        if self._head_bytes + self._fed > self._limits.max_head_bytes:
            size = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
            if size > self._limits.max_head_bytes:
                self._refusal = ApiError(431, "head_too_large", "The request's head is too large.")
        hosts = encoded = 0
        for name, value in headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-encoding":
                encoded += value.strip().lower() not in _UNCHANGED
        if version not in ("1.0", "1.1"):
            self._refusal = ApiError(505, "http_version", "HTTP/1.1 is spoken here.")
        elif hosts > 1 or (not hosts and version == "1.1"):
            self._refusal = ApiError(400, "invalid_http", "A request has one Host header.")
        elif encoded:
            self._refusal = _ENCODED
        elif len(url) - len(path) > MOST_QUERY_BYTES:
            # FastAPI takes it to pieces, asked or not.
            self._refusal = ApiError(414, "query_too_long", "No address has such a query here.")
        elif self.coming.length is not None and self.coming.length > self._limits.max_body_bytes:
            self._refusal = self._too_large()
        elif api is not None and (exchange.length is None or exchange.length > PATIENT_BYTES):
            self._refusal = self.doors.service.turns_away(exchange)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._work += 1
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

    def _partly(self, came: int, of_body: int) -> None:
        """Looks at the limits after a part of a request whose head is here."""
        self._waste = 0 if of_body else self._waste + came
        if self._refusal is None and self._waste > self._limits.max_head_bytes:
            # Trailers, or extensions of chunks, without end.
            self._refusal = ApiError(431, "head_too_large", "The request's head is too large.")
        if self._refusal is not None:
            self.pump()
        elif self.running is None:
            self.invite()

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
