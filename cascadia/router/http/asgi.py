"""A request of the paths that FastAPI serves: health, metrics, administration. Few, so told in ASGI's own words."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import httptools

from cascadia.router.http.wire import CLOSE_LINE, LAST_CHUNK, Headers, chunk, header_lines, status_line
from cascadia.router.openai.errors import ApiError
from cascadia.router.telemetry.internal_errors import tell

if TYPE_CHECKING:
    from cascadia.router.http.connection import ClientConnection

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_TO_PAGES = b"/v1/"
"""Paths that pages of other origins may be let at: see `access/cors.py`."""
_BODILESS = frozenset({204, 304})


class AsgiRequest:
    """The body is here before the application begins. `url` as the client wrote it; `more` are headers that the answer
    gets."""

    __slots__ = (
        "_chunked",
        "_client",
        "_done",
        "_framed",
        "_gone",
        "_head",
        "_headers",
        "_lasting",
        "_method",
        "_silent",
        "_started",
        "_task",
        "_told",
        "_url",
        "_version",
        "body",
        "expects",
        "length",
        "more",
    )

    def __init__(
        self,
        client: "ClientConnection",
        method: bytes,
        url: bytes,
        headers: Headers,
        *,
        version: str,
        lasting: bool,
    ) -> None:
        self._client = client
        self._method = method
        self._url = url
        self._headers = headers
        self._version = version
        self._lasting = lasting
        self._head = b""
        self._silent = self._chunked = self._started = self._told = self._done = False
        self._gone: asyncio.Event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.body = b""
        self.length: int | None = None
        self.expects = False
        self.more = b""
        pages = url.startswith(OPEN_TO_PAGES)
        for name, value in headers:
            if name == b"content-length":
                self.length = int(value)
            elif name == b"expect":
                self.expects = version == "1.1" and value.lower() == b"100-continue"
            elif name == b"origin" and pages:
                self.more = client.server.says_to_page(value)

    def begin(self) -> None:
        self._task = self._client.loop.create_task(self._run())

    def leave(self) -> None:
        self._gone.set()

    def probe(self) -> bool:
        return False

    async def _run(self) -> None:
        try:
            scope = self._scope()
            await self._client.server.routes(scope, self._receive, self._send)
        except httptools.HttpParserInvalidURLError:
            self._fail(ApiError(400, "invalid_http", "The address cannot be read."))
        except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours is told in the log)
            tell("internal error", error)
            self._fail(ApiError(500, "internal_error", "The router failed; its log says how."))
        finally:
            if not self._done:
                self._client.abandon()

    def _scope(self) -> Scope:
        parts = httptools.parse_url(self._url)
        raw = parts.path or b"/"
        transport = self._client.transport
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": self._version,
            "server": transport.get_extra_info("sockname")[:2],
            "client": (transport.get_extra_info("peername") or ("", 0))[:2],
            "scheme": "http",
            "method": self._method.decode("ascii"),
            "root_path": "",
            "path": unquote_to_bytes(raw).decode("utf-8", "replace"),
            "raw_path": raw,
            "query_string": parts.query or b"",
            # Nothing here reads cookies, and FastAPI takes thousands of them apart.
            "headers": [header for header in self._headers if header[0] != b"cookie"],
            "state": {},
        }

    async def _receive(self) -> Message:
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start(message["status"], message.get("headers", []))
        elif message["type"] == "http.response.body" and not self._done:
            await self._add(message.get("body", b""), more=message.get("more_body", False))

    def _start(self, status: int, headers: Headers) -> None:
        names = {name.lower() for name, _ in headers}
        self._silent = self._method == b"HEAD" or status in _BODILESS
        framed = self._silent or b"content-length" in names
        self._chunked = not framed and self._version == "1.1"
        self._lasting = self._lasting and not self._client.server.draining
        lines = header_lines([(name, value) for name, value in headers if name.lower() != b"connection"])
        self._head = b"".join(
            (
                status_line(status),
                lines,
                self.more,
                self._client.server.dates.line(),
                b"transfer-encoding: chunked\r\n" if self._chunked else b"",
                b"" if self._lasting else CLOSE_LINE,
                b"\r\n",
            )
        )

    async def _add(self, body: bytes, *, more: bool) -> None:
        data = b"" if self._silent else chunk(body) if self._chunked and body else body
        if self._chunked and not more:
            data += LAST_CHUNK
        head, self._head = self._head, b""
        self._started = True
        self._client.write(head + data)
        if not more:
            self._done = True
            self._gone.set()
            self._client.finished(lasting=self._lasting)
        elif self._client.full:
            await self._client.room()

    def _fail(self, error: ApiError) -> None:
        if self._started or self._done:
            return
        self._start(
            error.status,
            [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(error.body))],
        )
        self._client.write(self._head + (b"" if self._silent else error.body))
        self._done = True
        self._client.finished(lasting=self._lasting)
