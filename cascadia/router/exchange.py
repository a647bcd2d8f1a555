"""One request of a client: its body, whether the client is still there, and what it is sent.

Tasks and timers cost more than the rest of a fast request. So a task that waits for the client to leave, and then
cancels the work and with it whatever an engine does for it, is begun only where the request lasts (`departures.py`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from cascadia.router.failures import ApiError
from cascadia.router.protocol import ANSWER

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

HEARTBEAT = b": waiting\n\n"
JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
UNCACHED = (b"cache-control", b"no-cache")

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_OWN = b"x-cascadia-"


class Exchange:
    """`given` are the client's headers of the cascade, less `x-cascadia-`. `status` is 0 until something is sent."""

    __slots__ = (
        "_answer",
        "_beat",
        "_beat_timer",
        "_loop",
        "_main",
        "_receive",
        "_send",
        "_watcher",
        "closed",
        "first_at_s",
        "forwarded",
        "given",
        "left",
        "length",
        "request_id",
        "started_s",
        "status",
        "traceparent",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, own_id: Callable[[], bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self.started_s = self._loop.time()
        self._receive = receive
        self._send = send
        self._answer = scope["extensions"].get(ANSWER) if "extensions" in scope else None
        self._main: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[Message] | None = None
        self._beat: asyncio.Task[None] | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self.left = False
        self.closed = False
        self.status = 0
        self.first_at_s: float | None = None
        """When the first byte of an answer went out; comments that keep a stream alive are none."""
        self.traceparent = b""
        self.length: int | None = None
        self.given: dict[bytes, bytes] = {}
        request_id, traces = b"", b""
        for name, value in scope["headers"]:
            if name == b"content-length":
                self.length = int(value)
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                request_id = value
            elif name in (b"traceparent", b"tracestate") and value.isascii() and value.decode().isprintable():
                if name == b"traceparent":
                    self.traceparent = value
                else:
                    traces += name + b": " + value + b"\r\n"
            elif name.startswith(_OWN):
                self.given[name[len(_OWN) :]] = value
        self.request_id = request_id or own_id()
        self.forwarded = b"x-request-id: " + self.request_id + b"\r\n" + traces
        if self.traceparent:
            self.forwarded += b"traceparent: " + self.traceparent + b"\r\n"

    async def body(self, max_bytes: int) -> bytes:
        """The whole body. Raises `ApiError` 413 where it is too large."""
        if self.length is not None and self.length > max_bytes:
            raise _too_large(max_bytes)
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            parts, size = [body], len(body)
            while message.get("more_body"):
                message = await self._receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > max_bytes:
                    raise _too_large(max_bytes)
            body = b"".join(parts)
        if message["type"] == "http.disconnect":
            self.left = True
            raise asyncio.CancelledError
        return body

    def cancel_on_leaving(self, task: "asyncio.Task[Any] | None") -> None:
        """From here on `watch_now` makes sense, and cancels `task` when the client leaves."""
        self._main = task

    def watch_now(self) -> None:
        self._watcher = self._loop.create_task(self._receive())  # type: ignore[arg-type]
        self._watcher.add_done_callback(self._gone)

    def beat_every(self, seconds: float) -> None:
        """Comments are sent while nothing else is, so that no proxy takes the stream for dead."""
        self._beat_timer = self._loop.call_later(seconds, self._begin_beat, seconds)

    async def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """An answer in one piece."""
        await self._end_beat()
        self.status = status
        if status == 200:
            self.first_at_s = self._loop.time()
        all_headers = [*headers, (b"x-request-id", self.request_id), (b"content-length", b"%d" % len(body))]
        if self._answer is not None:
            lines = b"".join([name + b": " + value + b"\r\n" for name, value in all_headers])
            if self._answer(STATUS_LINE[status] + lines, body):
                return
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self._send({"type": "http.response.body", "body": body})

    async def error(self, error: ApiError) -> None:
        """In place of an answer, or where a stream has begun as its last event."""
        await self._end_beat()
        if self.status:
            await self.part(b"data: " + error.body + b"\n\n", more=False)
            return
        headers: Headers = [JSON]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", str(error.retry_after_s).encode("ascii")))
        await self.whole(error.status, headers, error.body)

    async def refusal(self, status: int, body: bytes, headers: Headers) -> None:
        """An engine's own 4xx, as it is where it is JSON."""
        await self._end_beat()
        if body[:1] != b"{":
            await self.error(
                ApiError(status, "refused", "The engine refused the request without saying why in JSON.")
            )
        elif self.status:
            await self.part(b"data: " + b" ".join(body.split()) + b"\n\n", more=False)
        else:
            await self.whole(status, [JSON, *headers], body)

    async def begin_stream(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """False where comments have gone out before, and with them the headers of another moment."""
        await self._end_beat()
        self.first_at_s = self._loop.time()
        if self.status:
            return False
        await self._head(headers)
        return True

    async def part(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def close(self) -> None:
        """Ends whatever still waits on behalf of this exchange."""
        self.closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        if self._beat is not None:
            self._beat.cancel()

    async def _head(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.status = 200
        all_headers = [EVENTS, UNCACHED, (b"x-request-id", self.request_id), *headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": all_headers})

    def _gone(self, watcher: "asyncio.Task[Message]") -> None:
        if watcher.cancelled() or watcher.exception() is not None:
            return
        if watcher.result()["type"] == "http.disconnect" and self._main is not None and not self._main.done():
            self.left = True
            self._main.cancel()

    def _begin_beat(self, seconds: float) -> None:
        self._beat = self._loop.create_task(self._send_beat())
        self._beat_timer = self._loop.call_later(seconds, self._begin_beat, seconds)

    async def _send_beat(self) -> None:
        if not self.status:
            await self._head(())
        await self.part(HEARTBEAT)

    async def _end_beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None
        if self._beat is not None:
            await self._beat
            self._beat = None


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, "body_too_large", f"The body is larger than {max_bytes:,} bytes.")
