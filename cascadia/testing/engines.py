"""Engines on real sockets that answer as they are told: the OpenAI API as far as a router asks for it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from cascadia.files.addresses import http_url

Answer = Callable[["FakeEngine", dict[str, Any], asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FakeEngine:
    """An engine on a port of its own. `text` is what it says, in as many pieces as it has letters where it is streamed.

    `answer` replaces how it answers; `healthy` is what its health check says; `logprobs` are those of each token's
    alternatives. `requests` and `heads` tell what it was asked, `arrived` that it was, `left` that its client went.
    """

    text: str = "hello"
    answer: Answer | None = None
    healthy: bool = True
    logprobs: list[list[float]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    server: asyncio.Server | None = None
    port: int = 0
    host: str = "127.0.0.1"
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return http_url(self.host, self.port)

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if head.startswith("GET"):
            send(writer, 200 if self.healthy else 503, b"{}")
            return True
        length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.requests.append(body)
        self.heads.append(head)
        self.arrived.set()
        watcher = asyncio.create_task(self._watch(reader))
        try:
            if self.answer is not None:
                await self.answer(self, body, writer)
            elif body.get("stream"):
                stream(writer, self.text, body)
            else:
                send(writer, 200, completion(self.text, self.logprobs))
            await writer.drain()
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        return not writer.is_closing()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """Says when the other side leaves: a router sends nothing before it has its answer."""
        if not await reader.read(1):
            self.left.set()


def completion(text: str, logprobs: list[list[float]] | None = None, **more: Any) -> bytes:
    """The body of a whole answer; `more` are further fields."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    if logprobs:
        choice["logprobs"] = {"content": [_entry(top) for top in logprobs]}
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return json.dumps(
        {"id": "c-1", "object": "chat.completion", "choices": [choice], "usage": usage} | more
    ).encode()


def _entry(top: list[float]) -> dict[str, Any]:
    return {
        "token": "0",
        "logprob": top[0],
        "top_logprobs": [{"token": str(i), "logprob": p} for i, p in enumerate(top)],
    }


def send(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json", more: str = ""
) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode() + body)


def begin_stream(writer: asyncio.StreamWriter) -> None:
    """The head of a stream; `event` follows."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")


def event(writer: asyncio.StreamWriter, data: dict[str, Any] | str) -> None:
    """One server-sent event, as a chunk of its own."""
    content = data if isinstance(data, str) else json.dumps(data)
    line = f"data: {content}\n\n".encode()
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


def delta(text: str) -> dict[str, Any]:
    """A piece of a streamed answer."""
    return {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": text}}],
    }


def stream(writer: asyncio.StreamWriter, text: str, body: dict[str, Any]) -> None:
    """The whole of a streamed answer to the request `body`."""
    begin_stream(writer)
    for letter in text:
        event(writer, delta(letter))
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        event(writer, {"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


@asynccontextmanager
async def started(*engines: FakeEngine) -> AsyncIterator[None]:
    """Engines that serve meanwhile."""
    for engine in engines:
        await engine.start()
    try:
        yield
    finally:
        for engine in engines:
            await engine.stop()
