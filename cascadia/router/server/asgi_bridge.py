"""One request of an ASGI server, answered by the built-in protocol over a connection that is memory alone.

What the ASGI server has taken apart is written as HTTP/1.1 again, and the answer read from its bytes: so every
endpoint, limit and refusal is the same, and is told once.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import httptools

from cascadia.router.http.asgi import Message, Receive, Scope, Send
from cascadia.router.http.connection import ClientConnection
from cascadia.router.http.contracts import ServerContract
from cascadia.router.http.wire import LAST_CHUNK, chunk, header_lines

HIGH_BYTES = 64 * 1024
"""So much of an answer may wait for the ASGI server before its writer has to."""
_HOP_BY_HOP = frozenset({b"connection", b"expect", b"keep-alive", b"te", b"transfer-encoding", b"upgrade"})
"""Between client and ASGI server; `expect` was answered when the body was asked for."""
_SERVERS_OWN = frozenset({b"connection", b"date", b"transfer-encoding"})


class Bridge(asyncio.Transport):
    """Transport whose far end is an ASGI server: bytes that are written to it become `messages`."""

    def __init__(self, scope: Scope, server: ServerContract) -> None:
        """Raises `ValueError` where something in the request's head could begin a line of its own."""
        super().__init__(
            {"peername": scope.get("client") or ("", 0), "sockname": scope.get("server") or ("", 0)}
        )
        self._method: str = scope["method"]
        self._head, self._chunked = head_of(scope)
        self._parser = httptools.HttpResponseParser(self)
        self._messages: list[Message] = []
        self._came = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()
        self._headers: list[tuple[bytes, bytes]] = []
        self._held = 0
        self._over = False
        self.gone = False
        self.client = ClientConnection(server)
        self.client.connection_made(self)

    # The protocol's side.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.gone:
            return
        self._parser.feed_data(data)
        self._held += len(data)
        if self._held > HIGH_BYTES and not self.client.full:
            self.client.pause_writing()

    def write_eof(self) -> None:
        """A refusal stands whole in what was written."""
        self.close()

    def close(self) -> None:
        self.gone = True
        self._came.set()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.gone

    def get_write_buffer_size(self) -> int:
        return self._held

    def pause_reading(self) -> None:
        self._reads.clear()

    def resume_reading(self) -> None:
        self._reads.set()

    # httptools' side.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        headers = [line for line in self._headers if line[0] not in _SERVERS_OWN]
        self._tell(
            {
                "type": "http.response.start",
                "status": self._parser.get_status_code(),
                "headers": headers,
            }
        )
        if self._method == "HEAD":
            self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._tell({"type": "http.response.body", "body": body, "more_body": True})

    def on_message_complete(self) -> None:
        if not self._over:
            self._over = True
            self._tell({"type": "http.response.body", "body": b"", "more_body": False})

    def _tell(self, message: Message) -> None:
        self._messages.append(message)
        self._came.set()

    # The ASGI server's side.

    async def answer(self, send: Send) -> None:
        """Sends the answer as it comes; one that breaks off is left without an end."""
        while True:
            await self._came.wait()
            self._came.clear()
            told, self._messages, self._held = self._joined(), [], 0
            for message in told:
                await send(message)
            if self.client.full and self._held <= HIGH_BYTES:
                self.client.resume_writing()
            if self.gone or (self._over and not self._messages):
                return

    def _joined(self) -> list[Message]:
        """Messages that have come, the parts of the body in one: each costs the ASGI server a write."""
        body = [message["body"] for message in self._messages if "body" in message]
        start = [message for message in self._messages if "body" not in message]
        if not body:
            return start
        return [*start, {"type": "http.response.body", "body": b"".join(body), "more_body": not self._over}]

    async def ask(self, receive: Receive) -> None:
        """Gives the protocol what the client sends, and tells it when the client is gone."""
        try:
            while not self.gone:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                self._take(message.get("body", b""), more=message.get("more_body", False))
                await self._reads.wait()
        finally:
            self.leave()

    def _take(self, body: bytes, *, more: bool) -> None:
        if self._chunked:
            body = (chunk(body) if body else b"") + (b"" if more else LAST_CHUNK)
        data, self._head = self._head + body, b""
        if data and not self.gone:
            self.client.data_received(data)

    def leave(self) -> None:
        """The request is over, or its client is gone."""
        self.gone = True
        if not self.client.gone:
            self.client.connection_lost(None)
        self._came.set()


def head_of(scope: Scope) -> tuple[bytes, bool]:
    """The request's head as HTTP/1.1 has it, and whether its body comes in chunks. Raises `ValueError`."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    raw: Any = scope.get("raw_path") if not root else None
    url = raw or quote(path.removeprefix(root) or "/", safe="/:@!$&'()*+,;=~-._").encode("ascii")
    if query := scope.get("query_string", b""):
        url += b"?" + query
    if any(byte <= 32 or byte == 127 for byte in url):
        raise ValueError("an address with blanks in it")
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _HOP_BY_HOP]
    named = {name.lower() for name, _ in headers}
    framed = b"content-length" in named
    chunked = not framed and any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
    # HTTP/2 has bodies with neither.
    chunked = chunked or (not framed and scope["method"] in ("POST", "PUT", "PATCH"))
    lines = header_lines(headers)
    if b"host" not in named:
        lines += b"host: cascadia\r\n"
    if chunked:
        lines += b"transfer-encoding: chunked\r\n"
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (scope["method"].encode("ascii"), url, lines), chunked
