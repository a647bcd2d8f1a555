"""Parser of a client's bytes into requests, each held to its limits while it comes.

A request of a path in `APIS` becomes an `Exchange`, any other an `AsgiRequest` for FastAPI.
"""

import re
from typing import TYPE_CHECKING

import httptools

from cascadia.clients.engines.seen_head import SeenHead, seen_head
from cascadia.router.http.asgi import AsgiRequest
from cascadia.router.http.contracts import Request
from cascadia.router.http.exchange import Exchange, exchange_of
from cascadia.router.http.head import Head, head_of
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import APIS

if TYPE_CHECKING:
    from cascadia.router.http.connection import ClientConnection

_HOT_PATHS = {path.encode("ascii"): api for path, api in APIS.items()}
PATIENT_BYTES = 64 * 1024
"""A body up to this size is read before anybody asks for the key, so that a refusal leaves the connection whole."""
REQUEST_WORK = 32
"""As many parts of bodies, a request."""
MOST_QUERY_BYTES = 2048
HEADS_LEARNT = 8
"""Of one connection, one after another: a client whose head is always another is not looked at for ever."""
_WHOLE = re.compile(rb"(?i:https?)://[^/?#]+")
_UNCHANGED = (b"", b"identity")
_ENCODED = ApiError(415, "content_encoding", "Send the body as it is: compressed ones are not read here.")
_UNREADABLE = ApiError(400, "invalid_http", "This is not an HTTP request that can be read.")


class RequestParser:
    """Parser of one connection's requests. `coming` is the one that is not here whole yet, `ready` are those that
    wait for their turn, `refusal` is what the client is told after them.
    """

    __slots__ = (
        "_body",
        "_client",
        "_due_bytes",
        "_fed",
        "_head_bytes",
        "_headers",
        "_in_head",
        "_learns",
        "_left_bytes",
        "_limits",
        "_parser",
        "_seen_max",
        "_size",
        "_upgraded",
        "_url",
        "_waste",
        "begun",
        "between",
        "coming",
        "deaf",
        "head",
        "ready",
        "refusal",
        "seen",
        "work",
    )

    def __init__(self, client: "ClientConnection") -> None:
        self._client = client
        self._limits = client.server.limits
        self._parser = httptools.HttpRequestParser(self)
        self.ready: list[Request] = []
        self.coming: Request | None = None
        self.refusal: ApiError | None = None
        self.deaf = False
        """Whether nothing more is read."""
        self.begun = True
        """Whether a head has begun to come, or a client has yet to send its first."""
        self.between = True
        """Whether what came are whole requests, and nothing of another."""
        self.seen: SeenHead | None = None
        self.head: Head
        """What `seen` says."""
        self.work = 0
        self._learns = HEADS_LEARNT
        self._seen_max = min(PATIENT_BYTES, self._limits.max_body_bytes)
        self._due_bytes = 0
        self._in_head = True
        self._upgraded = False
        self._left_bytes = 0
        self._fed = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: bytes | bytearray = b""
        self._head_bytes = self._size = self._waste = 0

    def forget(self) -> None:
        """The connection is gone. The parser holds what it tells: only a collection of garbage would end that."""
        self.stop()
        del self._parser, self._client

    def stop(self) -> None:
        """Reads nothing more."""
        self.deaf = True
        self.between = False
        self.ready.clear()
        self.coming = None
        self._body = b""

    def refuse(self, error: ApiError) -> None:
        self.refusal = error
        self.between = False

    def at_once(self, data: bytes) -> Exchange | None:
        """The request, where `data` is one with a head that came before; None where it must be fed.

        Asked where `between`, with nothing `ready`.
        """
        seen = self.seen
        if seen is None or not (begins := seen.body_begins(data)):
            return None
        length = len(data) - begins
        if length != seen.length or length > self._seen_max:
            return None
        exchange = exchange_of(self._client, self.head, length)
        exchange.body = data[begins:]
        return exchange

    @property
    def body_begun(self) -> bool:
        """Tells whether the body of the request that comes has begun."""
        return self._size > 0

    @property
    def slice_bytes(self) -> int:
        """Bytes to take next: of a body whose length is known, all that is missing."""
        if self._left_bytes or self.coming is None or self.coming.length is None or self._in_head:
            return self._left_bytes
        return self.coming.length - self._size

    def feed(self, data: bytes) -> None:
        if self.deaf or self.refusal is not None:
            return
        if self._left_bytes:
            self._add_left(data)
            return
        begins, self.between = self.between, False
        if begins and self.seen is not None and self._begins_seen(data):
            return
        self._fed = len(data)
        size, waiting = self._size, len(self.ready)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._not_upgraded(data[upgrade.args[0] :])
            return
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError:
            self.refuse(_UNREADABLE)
            return
        if begins:
            self._learn(data, waiting)
        elif self._due_bytes:
            self._due_bytes -= len(data)
        else:
            self._due_bytes = -1
        self.between = self._in_head and not self._due_bytes and self.refusal is None
        if not self.ready and self.refusal is None:
            self._partly(len(data), self._size - size)

    def _begins_seen(self, data: bytes) -> bool:
        """Tells whether `data` is a head that came before, and a part of its body: many clients write them one
        by one.
        """
        assert self.seen is not None
        begins = self.seen.body_begins(data)
        missing = self.seen.length - (len(data) - begins)
        if not begins or missing <= 0 or self.seen.length > self._seen_max:
            return False
        self.coming = exchange_of(self._client, self.head, self.seen.length)
        self._head_came()
        self._left_bytes = missing
        if begins < len(data):
            self.on_body(data[begins:])
        return True

    def _learn(self, data: bytes, waiting: int) -> None:
        """Learns, after data that begins a request, where so many were `waiting`, how much of it is due, and
        what its head is, should the next have the same.
        """
        self._due_bytes = -1
        request = self.ready[waiting] if len(self.ready) > waiting else self.coming
        if not isinstance(request, Exchange) or not self._learns or request.head.of_one:
            return
        self._learns -= 1
        seen = seen_head(data)
        if seen is None or seen.length != request.length or self.refusal is not None:
            return
        self.seen, self.head = seen, request.head
        self._due_bytes = seen.body_begins(data) + seen.length - len(data)

    # httptools. Nothing is begun here: what a callback raises is told as a fault of the client's.

    def on_url(self, url: bytes) -> None:
        if not self._url:
            self.begun = True
            if self._client.running is None:
                self._client.patience.begin()
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a chunked body is no head.
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        version = parser.get_http_version()
        # HTTP/1.0's connections that last are an extension with known faults (RFC 9112, C.2.2).
        lasting = version == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
        method = parser.get_method()
        headers, self._headers = self._headers, []
        url, self._url = _origin_form(self._url), b""
        path = url.partition(b"?")[0]
        api = _HOT_PATHS.get(path) if method == b"POST" else None
        exchange: Exchange | None = None
        if api is not None:
            head, length = head_of(path, api, headers, lasting=lasting, chunked=version == "1.1")
            self.coming = exchange = exchange_of(self._client, head, length)
        else:
            self.coming = AsgiRequest(self._client, method, url, headers, version=version, lasting=lasting)
        self._head_came()
        self.refusal = self._refused_by(self.coming, version, url, url[len(path) :], headers)
        if (
            self.refusal is None
            and exchange is not None
            and (exchange.length is None or exchange.length > PATIENT_BYTES)
        ):
            self.refusal = self._client.server.service.turns_away(exchange)

    def _head_came(self) -> None:
        self._in_head = False
        self.work += REQUEST_WORK
        self._size = self._waste = 0
        self._client.patience.begin()

    def _refused_by(
        self, request: Request, version: str, url: bytes, query: bytes, headers: list[tuple[bytes, bytes]]
    ) -> ApiError | None:
        """Reason why a request is refused by its head."""
        if self._head_bytes + self._fed > self._limits.max_head_bytes:
            # Exactly, only where the bytes that came may exceed it: they hold a part of the body as well.
            size = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
            if size > self._limits.max_head_bytes:
                return ApiError(431, "head_too_large", "The request's head is too large.")
        hosts = encoded = 0
        for name, value in headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-encoding":
                encoded += value.strip().lower() not in _UNCHANGED
        if version not in ("1.0", "1.1"):
            return ApiError(505, "http_version", "HTTP/1.1 is spoken here.")
        # RFC 9112, 3.2: two proxies that read another Host each would take it for another's request.
        if hosts > 1 or (not hosts and version == "1.1"):
            return ApiError(400, "invalid_http", "A request has one Host header.")
        if encoded:
            return _ENCODED
        if len(query) > MOST_QUERY_BYTES:
            # FastAPI takes it to pieces, asked or not.
            return ApiError(414, "query_too_long", "No address has such a query here.")
        if request.length is not None and request.length > self._limits.max_body_bytes:
            return self._too_large()
        return None

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self.work += 1
        if self._size > self._limits.max_body_bytes:
            self.refusal = self._too_large()
        else:
            self._keep(body)

    def _keep(self, part: bytes) -> None:
        if not self._body:
            self._body = part
            return
        # One array: of parts of a byte there may be a million to join.
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += part

    def on_message_complete(self) -> None:
        self._in_head = True
        self.begun = False
        self._head_bytes = 0
        request = self.coming
        if request is None or self.refusal is not None:
            return
        if request.length and self._parser.should_upgrade():
            self._upgraded = True
            # The parser ends a message with such a head (RFC 9110, 7.8), and its body would pass for the next
            # request.
            self._left_bytes = request.length
        else:
            self._complete()

    def _complete(self) -> None:
        assert self.coming is not None
        self.coming.body = bytes(self._body)
        self.ready.append(self.coming)
        self._body = b""
        self.coming = None

    def _partly(self, came: int, of_body: int) -> None:
        """Looks at the limits after a part of a request."""
        if self._in_head:
            self._head_bytes += came
            self.begun = True
            if self._head_bytes > self._limits.max_head_bytes:
                self.refuse(ApiError(431, "head_too_large", "The request's head is too large."))
        elif self.coming is not None:
            self._waste = 0 if of_body else self._waste + came
            if self._waste > self._limits.max_head_bytes:
                # Trailers, or extensions of chunks, without end.
                self.refuse(ApiError(431, "head_too_large", "The request's head is too large."))

    def _too_large(self) -> ApiError:
        return ApiError(
            413, "body_too_large", f"The body is larger than {self._limits.max_body_bytes:,} bytes."
        )

    # Java's client asks to go on in HTTP/2 with its first request, be it a POST; the parser stops after such a head.

    def _not_upgraded(self, rest: bytes) -> None:
        """The body after such a head is taken by its length; what else follows is not read."""
        if self._left_bytes:
            self._add_left(rest)
        else:
            self.deaf = True

    def _add_left(self, data: bytes) -> None:
        """Adds a part of a body that the parser does not see."""
        part = data[: self._left_bytes]
        self._left_bytes -= len(part)
        self.on_body(part)
        if self._left_bytes:
            return
        self._complete()
        if self._upgraded:
            self.deaf = True
            return
        self._in_head = self.between = True
        self.begun = False
        if len(part) < len(data):
            self.feed(data[len(part) :])


def _origin_form(target: bytes) -> bytes:
    """`target` less scheme and host, with which a client may write it as to a proxy (RFC 9112, 3.2.2)."""
    whole = None if target[:1] == b"/" else _WHOLE.match(target)
    if whole is None:
        return target
    rest = target[whole.end() :]
    return rest if rest[:1] == b"/" else b"/" + rest
