"""One request of the hot path: what it brought, and what its client is sent. Nothing of this waits, but for `part`."""

import asyncio
import re
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

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
    from cascadia.router.access.access import Hold
    from cascadia.router.http.connection import Front
    from cascadia.router.openai.requests import Api

CLIENT_LEFT = 499
"""As nginx logs a request whose client did not wait."""
HEARTBEAT = b": waiting\n\n"
_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_OWN = b"x-cascadia-"
_READ = frozenset(
    (
        *(b"authorization", b"content-length", b"expect", b"traceparent", b"tracestate"),
        *(b"x-request-id", b"x-session-id", b"origin"),
    )
)


class Exchange:
    """`given` are the client's headers of the cascade, less `x-cascadia-`. `status` is 0 until something is sent.

    `more` are headers that every answer gets; `hold` is what a key was let in with. `lasting`: the client would send
    another request on its connection; `chunked`: it can read a body of parts.
    """

    __slots__ = (
        "_beat_timer",
        "_chunked",
        "_done",
        "_front",
        "_lasting",
        "api",
        "authorization",
        "body",
        "expects",
        "first_at_s",
        "forwarded",
        "given",
        "hold",
        "left",
        "length",
        "more",
        "on_leaving",
        "path",
        "request_id",
        "started_s",
        "status",
        "traceparent",
    )

    def __init__(
        self, front: "Front", path: bytes, api: "Api", headers: Headers, *, lasting: bool, chunked: bool
    ) -> None:
        self._front = front
        self.path = path
        self.api = api
        self._lasting = lasting
        self._chunked = chunked
        self._done = False
        self._beat_timer: asyncio.TimerHandle | None = None
        self.started_s = monotonic()
        self.on_leaving: Callable[[], object] | None = None
        """Called when the client leaves before it was answered."""
        self.left = False
        self.status = 0
        self.first_at_s: float | None = None
        """When the first byte of an answer went out; comments that keep a stream alive are none."""
        self.traceparent = b""
        self.body = b""
        self.length: int | None = None
        self.expects = False
        self.given: dict[bytes, bytes] = {}
        self.authorization = b""
        self.hold: Hold | None = None
        self.more = b""
        request_id, traces = b"", b""
        for name, value in headers:
            if name not in _READ:
                if name.startswith(_OWN):
                    self.given[name[len(_OWN) :]] = value
            elif name == b"content-length":
                self.length = int(value)
            elif name == b"authorization":
                # Of two nobody knows which is meant.
                self.authorization = b"twice" if self.authorization else value
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                request_id = value
            elif name in (b"traceparent", b"tracestate") and value.isascii() and value.decode().isprintable():
                if name == b"traceparent":
                    self.traceparent = value
                else:
                    traces += name + b": " + value + b"\r\n"
            elif name == b"expect":
                self.expects = value.lower() == b"100-continue"
            elif name == b"origin":
                self.more = front.doors.says_to_page(value)
            elif name == b"x-session-id":
                self.given[b"session-id"] = value
        self.request_id = request_id or front.doors.next_id()
        self.forwarded = b"x-request-id: " + self.request_id + b"\r\n" + traces
        if self.traceparent:
            self.forwarded += b"traceparent: " + self.traceparent + b"\r\n"

    def begin(self) -> None:
        self._front.doors.service.begin(self)

    def leave(self) -> None:
        self.left = True
        if self.on_leaving is not None:
            self.on_leaving()

    def probe(self) -> bool:
        """An interim response, or a comment of a stream that has begun."""
        if not self._chunked or self._done:
            return False
        if not self._front.full:
            self._front.write(chunk(HEARTBEAT) if self.status else CONTINUE)
        return True

    def beat_every(self, seconds: float) -> None:
        """Comments are sent while nothing else is, so that no proxy takes the stream for dead."""
        self._beat_timer = self._front.loop.call_later(seconds, self._beat, seconds)

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """An answer in one piece."""
        self.reply(status_line(status) + header_lines(headers), body, status)

    def reply(self, head: bytes, body: bytes, status: int = 200) -> None:
        """An answer in one piece; `head` is its status line and its own headers, in whole lines."""
        self._end_beat()
        self.status = status
        if status == 200:
            self.first_at_s = monotonic()
        lasting = self._lasting and not self._front.doors.draining
        self._front.write(
            b"%b%b%bx-request-id: %b\r\n%bcontent-length: %d\r\n\r\n%b"
            % (
                head,
                self.more,
                self._front.doors.dates.line(),
                self.request_id,
                b"" if lasting else CLOSE_LINE,
                len(body),
                body,
            )
        )
        self._done = True
        self._front.finished(lasting=lasting)

    def error(self, error: ApiError) -> None:
        """Writes the error in place of an answer, or where a stream has begun as its last event."""
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
            self.error(
                ApiError(status, "refused", "The engine refused the request without saying why in JSON.")
            )
        elif self.status:
            self.last_part(b"data: " + b" ".join(body.split()) + b"\n\n")
        else:
            self.whole(status, [JSON, *headers], body)

    def begin_stream(self, headers: Headers) -> bool:
        """False where comments have gone out before, and with them the headers of another moment."""
        self._end_beat()
        self.first_at_s = monotonic()
        if self.status:
            return False
        self.status = 200
        self._lasting = self._lasting and not self._front.doors.draining
        head = [status_line(200), _STREAM, self._front.doors.dates.line(), b"x-request-id: ", self.request_id]
        head += [b"\r\n", header_lines(headers), self.more]
        if self._chunked:
            head.append(_CHUNKED)
        if not self._lasting:
            head.append(CLOSE_LINE)
        self._front.write(b"".join(head) + b"\r\n")
        return True

    async def part(self, data: bytes) -> None:
        """Part of a stream that has begun. Waits while the client is far behind with reading."""
        self._front.write(chunk(data) if self._chunked else data)
        if self._front.full:
            await self._front.room()

    def last_part(self, data: bytes) -> None:
        self._end_beat()
        if self._chunked:
            data = (chunk(data) if data else b"") + LAST_CHUNK
        self._front.write(data)
        self._done = True
        self._front.finished(lasting=self._lasting)

    def close(self) -> None:
        """Ends whatever still goes on for this exchange. A client that was left without an end is told by a reset."""
        self._end_beat()
        self.on_leaving = None
        if not self._done:
            self._done = True
            self._front.abandon()

    def _beat(self, seconds: float) -> None:
        if not self.status:
            self.begin_stream([])
            self.first_at_s = None
        if not self._front.full:
            self._front.write(chunk(HEARTBEAT) if self._chunked else HEARTBEAT)
        self.beat_every(seconds)

    def _end_beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None
