"""uvicorn's HTTP protocol, less patient and with a short cut.

Less patient: limits on the head of a request, and on how slowly it may come. The short cut: a whole answer is one
write, where ASGI makes it two messages and uvicorn two system calls, which cost more than all of our own code.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cascadia.router.failures import ApiError

if TYPE_CHECKING:
    from cascadia.router.settings import Limits

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Unavailable",
}


ANSWER = "cascadia.answer"
"""ASGI extension: a function of (the head less its last line, the body); False where ASGI's way must be taken."""


def limited(limits: "Limits", draining: Callable[[], bool]) -> type[HttpToolsProtocol]:
    """The protocol's class, to be given to uvicorn, which makes one for each connection.

    While `draining`, each answer is the last of its connection, so that clients move on before the port is closed.
    """

    class Limited(HttpToolsProtocol):
        """`_pending`: a request has begun to come and is not here whole. `_head_bytes`: of its head, about."""

        _pending = False
        _in_head = True
        _head_bytes = 0
        _slow: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                self._refuse(ApiError(503, "too_many_connections", "Too many connections.", retry_after_s=1))
                return
            self._slow = self.loop.call_later(limits.head_s, self._too_slow)

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head_bytes += len(data)
            super().data_received(data)
            if self._in_head and self._head_bytes > limits.max_head_bytes:
                if not self.transport.is_closing():
                    self._refuse(ApiError(431, "head_too_large", "The request's head is too large."))
            elif self._pending:
                if self._slow is None:
                    wait_s = limits.head_s if self._in_head else limits.body_s
                    self._slow = self.loop.call_later(wait_s, self._too_slow)
            elif self._slow is not None:
                self._slow.cancel()
                self._slow = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self._slow is not None:
                self._slow.cancel()
                self._slow = None
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._pending = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._head_bytes = 0
            super().on_headers_complete()
            if draining():
                self.cycle.keep_alive = False
            self.scope["extensions"] = {ANSWER: partial(self._answer, self.cycle)}  # type: ignore[dict-item]
            if self._slow is not None:
                # The head came in parts: its body has a time of its own.
                self._slow.cancel()
                self._slow = self.loop.call_later(limits.body_s, self._too_slow)

        def on_message_complete(self) -> None:
            self._pending = False
            self._in_head = True
            super().on_message_complete()

        def _answer(self, cycle: RequestResponseCycle, head: bytes, body: bytes) -> bool:
            if cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
                return False
            for name, value in cycle.default_headers:
                head += name + b": " + value + b"\r\n"
            end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
            cycle.waiting_for_100_continue = False
            cycle.response_started = cycle.response_complete = True
            self.transport.write(head + end + body)
            cycle.message_event.set()
            if not cycle.keep_alive:
                self.transport.close()
            cycle.on_response()
            return True

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's text)
            self._refuse(ApiError(400, "invalid_http", "This is not an HTTP request that can be read."))

        def _too_slow(self) -> None:
            self._slow = None
            if self._in_head and not self.transport.is_closing():
                self._refuse(ApiError(408, "too_slow", "The request did not come in time."))
            else:
                self.transport.abort()

        def _refuse(self, error: ApiError) -> None:
            body = error.body
            head: list[Any] = [
                b"HTTP/1.1 ",
                str(error.status).encode(),
                b" ",
                _REASONS[error.status],
                b"\r\n",
            ]
            head += [b"content-type: application/json\r\nconnection: close\r\n"]
            head += [b"content-length: ", str(len(body)).encode(), b"\r\n\r\n", body]
            self.transport.write(b"".join(head))
            self.transport.close()

    return Limited
