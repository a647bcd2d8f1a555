"""One request of the hot path: what it brought, and what its client is sent. Nothing of this waits, but for `room`."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from cascadia.router.http.head import Head
from cascadia.router.http.wire import (
    CLOSE_LINE,
    CONTINUE,
    JSON,
    LAST_CHUNK,
    Headers,
    chunk,
    header_lines,
    status_line,
)
from cascadia.router.openai.errors import ApiError

if TYPE_CHECKING:
    from cascadia.router.http.connection import ClientConnection

CLIENT_LEFT = 499
"""As nginx logs a request whose client did not wait."""
HEARTBEAT = b": waiting\n\n"
_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_LENGTH = b"\r\ncontent-length: %d\r\n\r\n"
_LAST_LENGTH = b"\r\n" + CLOSE_LINE + b"content-length: %d\r\n\r\n"
"""After a request's id."""
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class Admitted(Protocol):
    """Reservation of a key, as an exchange sees it: `access.Reservation`."""

    spent: int | None
    """Tokens that engines counted, set by whoever learns them."""

    @property
    def priority(self) -> int:
        """The most urgent that the request may be."""

    @property
    def max_gear(self) -> int | None:
        """The lightest gear that the request may get; None: any."""

    @property
    def written(self) -> int:
        """Tokens out of a live stream, by estimate."""

    def passed(self, part: bytes) -> None:
        """A part of a live stream, of whole events, went to the client."""

    def counted(self, tokens: int) -> None:
        """Its engine counted the live stream: so many, beside what was `spent` before."""

    def charge(self, stage: str, usd: float) -> None:
        """Charges what its engines' tokens at `stage` cost."""

    def release(self, *, left: bool, took: int = 0) -> None:
        """The request is over; `left`: its client did not wait. `took`: tokens of all its turns, as the log has it."""


class Exchange(Struct, eq=False):
    """`status` is 0 until something is sent. `more` are headers that every answer gets; `reservation` is what a key was
    let in with.
    """

    _client: "ClientConnection"
    head: Head
    request_id: bytes
    started_s: float
    more: bytes = b""
    length: int | None = None
    """Of the body, where its head says it."""
    body: bytes = b""
    expects: bool = False
    """Whether the client waits to be told to send its body."""
    reservation: Admitted | None = None
    status: int = 0
    first_at_s: float | None = None
    """When the first byte of an answer went out; comments that keep a stream alive are none."""
    left: bool = False
    on_leaving: Callable[[], object] | None = None
    """Called when the client leaves before it was answered."""
    _done: bool = False
    _lasting: bool = True
    _heartbeat: "Heartbeat | None" = None

    @property
    def forwarded(self) -> bytes:
        """Header lines that engines get, so that their logs and traces can be found with ours."""
        return b"x-request-id: " + self.request_id + b"\r\n" + self.head.traces

    def begin(self) -> None:
        self._client.server.service.begin(self)

    def leave(self) -> None:
        self.left = True
        if self.on_leaving is not None:
            self.on_leaving()

    def probe(self) -> bool:
        """An interim response, or a comment of a stream that has begun."""
        # HTTP/1.1 clients pass over any number of interim responses; one of HTTP/1.0 may be sent none (RFC
        # 9110, 15.2).
        if not self.head.chunked or self._done:
            return False
        if not self._client.full:
            self._client.write(chunk(HEARTBEAT) if self.status else CONTINUE)
        return True

    def beat_every(self, seconds: float) -> None:
        """Comments are sent while nothing else is, so that no proxy takes the stream for dead."""
        self._heartbeat = Heartbeat(self._client.loop, seconds, self._beat)

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """An answer in one piece."""
        self.reply(status_line(status) + header_lines(headers), body, status)

    def reply(self, head: bytes, body: bytes, status: int = 200) -> None:
        """An answer in one piece; `head` is its status line and its own headers, in whole lines."""
        if self._heartbeat is not None:
            self._end_heartbeat()
        self.status = status
        if status == 200:
            self.first_at_s = monotonic()
        client = self._client
        server = client.server
        lasting = self.head.lasting and not server.draining
        length = (_LENGTH if lasting else _LAST_LENGTH) % len(body)
        lines = (head, self.more, server.dates.line(), b"x-request-id: ", self.request_id, length, body)
        client.write(b"".join(lines))
        self._done = True
        client.finished(lasting=lasting)

    def error(self, error: ApiError) -> None:
        """Writes the error in place of an answer, or where a stream has begun as its last event; nothing where that has
        ended, with the engine's own."""
        if self._done:
            return
        if self.status:
            self.last_part(b"data: " + error.body + b"\n\n")
            return
        headers: Headers = [JSON]
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if error.retry_after_s is not None:
            headers.append((b"retry-after", str(error.retry_after_s).encode("ascii")))
        self.whole(error.status, headers, error.body)

    def refusal(self, status: int, body: bytes, headers: Headers) -> None:
        """An engine's own 4xx, as it is where it is JSON."""
        if body[:1] != b"{":
            if not self.status:
                self.more += header_lines(headers)
            self.error(
                ApiError(status, "refused", "The engine refused the request without saying why in JSON.")
            )
        elif self.status:
            # One line: a break within the JSON would begin another field of the event.
            self.last_part(b"data: " + body.translate(_ONE_LINE).strip() + b"\n\n")
        else:
            self.whole(status, [JSON, *headers], body)

    def begin_stream(self, headers: Headers) -> None:
        """Begins a stream. Where comments have gone out before, so have the headers of another moment: then
        `headers` are not told.
        """
        if self._heartbeat is not None:
            self._end_heartbeat()
        self.first_at_s = monotonic()
        if not self.status:
            self._write_head(headers)

    def _write_head(self, headers: Headers) -> None:
        """Writes the head of a stream."""
        self.status = 200
        self._lasting = self.head.lasting and not self._client.server.draining
        head = [
            status_line(200),
            _STREAM,
            self._client.server.dates.line(),
            b"x-request-id: ",
            self.request_id,
        ]
        head += [b"\r\n", header_lines(headers), self.more]
        if self.head.chunked:
            head.append(_CHUNKED)
        if not self._lasting:
            head.append(CLOSE_LINE)
        self._client.write(b"".join(head) + b"\r\n")

    def part(self, data: bytes) -> None:
        """Writes part of a stream that has begun; where its client is `behind` the next waits for `room`."""
        self._client.write(chunk(data) if self.head.chunked else data)

    @property
    def behind(self) -> bool:
        """Tells whether the client is far behind with reading."""
        return self._client.full

    async def room(self) -> None:
        """Waits until the client has read."""
        await self._client.room()

    def last_part(self, data: bytes) -> None:
        if self._heartbeat is not None:
            self._end_heartbeat()
        if self.head.chunked:
            data = (chunk(data) if data else b"") + LAST_CHUNK
        self._client.write(data)
        self._done = True
        self._client.finished(lasting=self._lasting)

    def close(self) -> None:
        """Ends whatever still goes on for this exchange. A client that was left without an end is told by a reset."""
        if self._heartbeat is not None:
            self._end_heartbeat()
        self.on_leaving = None
        if not self._done:
            self._done = True
            self._client.abandon()

    def _end_heartbeat(self) -> None:
        """And lets go of it, which holds this exchange in turn."""
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.end()

    def _beat(self) -> None:
        if not self.status:
            self._write_head([])
        if not self._client.full:
            self._client.write(chunk(HEARTBEAT) if self.head.chunked else HEARTBEAT)


class Heartbeat:
    """Calls `beat` every `seconds`, until `end`."""

    __slots__ = ("_beat", "_loop", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, beat: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._beat = beat
        self._timer = loop.call_later(seconds, self._rang)

    def _rang(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._rang)
        self._beat()

    def end(self) -> None:
        self._timer.cancel()


def exchange_of(client: "ClientConnection", head: Head, length: int | None) -> Exchange:
    """A request that came over `client`; its body is still to come."""
    more = client.server.says_to_page(head.origin) if head.origin else b""
    request_id = head.request_id or client.server.next_id()
    return Exchange(client, head, request_id, monotonic(), more, length, expects=head.expects)
