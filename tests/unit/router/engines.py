"""Engines on real sockets that answer as they are told, and routers in front of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import uvloop

from cascadia.clients.processes.ports import listen
from cascadia.router.access.keys import Keyring
from cascadia.router.gates.base import Gate, JudgeFailed
from cascadia.router.server.app import Router
from cascadia.router.server.server import Server
from cascadia.router.settings.model import (
    Health,
    JudgeSettings,
    Limits,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)

Answer = Callable[["FakeEngine", dict[str, Any], asyncio.StreamWriter], Awaitable[None]]

QUICK = Health(interval_s=0.05, again_s=0.02, timeout_s=10.0, failures=2, startup_s=60.0)


@dataclass
class FakeEngine:
    """`text` is what it says. `answer` replaces how it answers; `healthy` is what its health check says."""

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
        return f"http://{self.host}:{self.port}"

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
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")


def event(writer: asyncio.StreamWriter, data: dict[str, Any] | str) -> None:
    content = data if isinstance(data, str) else json.dumps(data)
    line = f"data: {content}\n\n".encode()
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


def delta(text: str) -> dict[str, Any]:
    return {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": text}}],
    }


def stream(writer: asyncio.StreamWriter, text: str, body: dict[str, Any]) -> None:
    begin_stream(writer)
    for letter in text:
        event(writer, delta(letter))
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        event(writer, {"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


@dataclass
class ScriptedGate:
    """Scores answers by their text. A score of None fails; `slow` never answers."""

    scores: dict[str, float | None]
    slow: bool = False
    seen: list[tuple[str, str]] = field(default_factory=list)

    def wants(self, api: str) -> dict[str, Any]:
        return {}

    async def score(self, question: str, choice: Any, deadline_s: float) -> float:
        self.seen.append((question, choice.text))
        if self.slow:
            await asyncio.Event().wait()
        score = self.scores[choice.text]
        if score is None:
            raise JudgeFailed("nonsense")
        return score


@dataclass
class Running:
    router: Router
    server: Server
    client: httpx.AsyncClient
    port: int
    lines: list[dict[str, Any]]

    async def chat(self, model: str = "cascadia", **more: Any) -> httpx.Response:
        headers = more.pop("headers", None)
        path = more.pop("path", "/v1/chat/completions")
        body = {"model": model, "messages": [{"role": "user", "content": "What is 2+2?"}]} | more
        return await self.client.post(path, json=body, headers=headers)


def stages(
    *engines: FakeEngine | list[FakeEngine], thresholds: tuple[float, ...] = ()
) -> tuple[StageSettings, ...]:
    """Named small, medium, large; of two: small, large."""
    names = {1: ("small",), 2: ("small", "large"), 3: ("small", "medium", "large")}[len(engines)]
    limits = (*thresholds, *[0.0] * len(engines))
    return tuple(
        StageSettings(
            name,
            f"{name}-model",
            tuple(ReplicaSettings(e.url) for e in (group if isinstance(group, list) else [group])),
            threshold,
        )
        for name, group, threshold in zip(names, engines, limits, strict=False)
    )


@asynccontextmanager
async def running(
    settings: tuple[StageSettings, ...] | RouterSettings,
    gate: Gate | None = None,
    judge: JudgeSettings | None = None,
    keyring: Keyring | None = None,
    prepare: Callable[[Router], object] | None = None,
    all_ready: bool = True,
    **limits: Any,
) -> AsyncIterator[Running]:
    """A router that serves at a port of its own; all its replicas are ready, or one where not `all_ready`.

    `prepare` may change it before it starts.
    """
    if not isinstance(settings, RouterSettings):
        settings = RouterSettings(settings, judge, health=QUICK)
    settings = replace(settings, limits=replace(Limits(), **limits))
    lines: list[dict[str, Any]] = []

    def write(content: bytes) -> None:
        lines.extend(json.loads(line) for line in content.splitlines())

    router = Router(settings, write, gate, keyring)
    if prepare is not None:
        prepare(router)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = Server(router)
    await router.start()
    task = asyncio.create_task(server.serve(sockets=[listening]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False) as client:
        try:
            enough = all if all_ready else any
            await until(
                lambda: (
                    server.started and enough(r.state == "ready" for s in router.stages for r in s.replicas)
                )
            )
            yield Running(router, server, client, port, lines)
        finally:
            server.end()
            await task
            await router.stop()


@asynccontextmanager
async def started(*engines: FakeEngine) -> AsyncIterator[None]:
    for engine in engines:
        await engine.start()
    try:
        yield
    finally:
        for engine in engines:
            await engine.stop()


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(main())


async def until(what: Callable[[], bool], seconds: float = 15.0) -> None:
    """Lets others run until `what` holds."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.005)
