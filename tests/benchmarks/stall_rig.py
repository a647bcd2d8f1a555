"""Routers whose event loops tell how much CPU time each of their turns took, with engines that answer as an attacker
likes: the rig of `bench_stalls.py`.

The router runs in a thread of its own, on asyncio's own loop, which can be watched from within; a turn is what the loop
does between two looks at its sockets. The engines run in another thread, the attacker in the caller's.
"""

import asyncio
import contextlib
import gc
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cascadia.clients.processes.ports import listen
from cascadia.router.access.keys import Key, Keyring, make_key
from cascadia.router.server.app import Router
from cascadia.router.server.server import GC_THRESHOLDS, Server
from cascadia.router.settings.model import (
    AdminSettings,
    ConversationSettings,
    Health,
    JudgeSettings,
    KeySettings,
    Limits,
    ReplicaSettings,
    RouterSettings,
    SampleSettings,
    StageSettings,
)

PATIENCE_S = 20.0
KEY = make_key()
OK = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"


class WatchedLoop(asyncio.SelectorEventLoop):
    """`worst_s`: CPU time of the longest turn since it was set to 0; `total_s`: of all of them."""

    worst_s = 0.0
    total_s = 0.0

    def _run_once(self) -> None:
        start_s = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        turn_s = time.thread_time() - start_s
        self.worst_s = max(self.worst_s, turn_s)
        self.total_s += turn_s


class Runner:
    """A loop that runs in a thread until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


@dataclass
class Engine:
    """Sends `answer`, whole, for whatever it is asked; is always well."""

    answer: bytes = b""
    port: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(OK % (b"application/json", 2, b"{}"))
                    continue
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(self.answer)
                await writer.drain()
        writer.close()


@dataclass(frozen=True, slots=True)
class Rig:
    """`turn_s`: the loop's longest turn while a client sends `request` and the engines answer as told."""

    port: int
    loop: WatchedLoop
    stage: Engine
    judge: Engine

    def turn_s(self, request: bytes, answer: bytes, verdict: bytes) -> float:
        self.stage.answer, self.judge.answer = answer, verdict
        self._settled()
        self.loop.worst_s = self.loop.total_s = 0.0
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as client:
            client.settimeout(PATIENCE_S)
            sending = threading.Thread(target=_send, args=(client, request), daemon=True)
            sending.start()
            while client.recv(1 << 20):
                pass
            sending.join(PATIENCE_S)
        self._settled()
        return self.loop.worst_s

    def _settled(self) -> None:
        """What the loop had to do is done: a few turns have passed."""
        for _ in range(3):
            passed = threading.Event()
            self.loop.call_soon_threadsafe(passed.set)
            passed.wait(PATIENCE_S)


def _send(client: socket.socket, request: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(request)


@contextlib.contextmanager
def rig(judge: str = "llm", prepare: Callable[[Router], object] | None = None) -> Iterator[Rig]:
    """A cascade of `small` and `large` with a judge of that kind, or of models that `classify`; keys, an admin API, and
    all that reads requests: sticky conversations, and replicas by prefix. `narrow`: what is long does not fit `small`;
    `noted`: a workload log with texts. Both have an LLM judge."""
    beside = contextlib.ExitStack()
    engines, watched = Runner(asyncio.new_event_loop()), Runner(WatchedLoop())
    stage, judges = Engine(), Engine()
    engines.do(stage.start())
    engines.do(judges.start())
    loop = watched.loop
    assert isinstance(loop, WatchedLoop)
    before = gc.get_threshold()
    server: Server | None = None
    serving: asyncio.Task[None] | None = None

    async def begin() -> int:
        nonlocal server, serving
        key = Key(KEY.id, "all", KEY.digest, scopes=frozenset({"inference", "metrics", "admin"}))
        settings = _settings(judge, stage, judges)
        if judge == "noted":
            folder = Path(beside.enter_context(tempfile.TemporaryDirectory()))
            settings = replace(settings, samples=SampleSettings(folder, text=True))
        router = Router(settings, lambda _: None, keyring=Keyring([key]))
        if prepare is not None:
            prepare(router)
        listening = listen("127.0.0.1", 0)
        server = Server(router)
        await router.start()
        serving = asyncio.create_task(server.serve([listening]))
        async with asyncio.timeout(PATIENCE_S):
            while not router.ready:
                await asyncio.sleep(0.01)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        return int(listening.getsockname()[1])

    async def end() -> None:
        if server is not None and serving is not None:
            server.end()
            await serving
            await server.router.stop()

    try:
        yield Rig(watched.do(begin()), loop, stage, judges)
    finally:
        watched.do(end())
        gc.set_threshold(*before)
        gc.unfreeze()
        watched.stop()
        engines.do(stage.stop())
        engines.do(judges.stop())
        engines.stop()
        beside.close()


def _settings(judge: str, stage: Engine, judges: Engine) -> RouterSettings:
    def at(engine: Engine) -> tuple[ReplicaSettings, ...]:
        return (ReplicaSettings(f"http://127.0.0.1:{engine.port}"),)

    kind = "llm" if judge in ("narrow", "noted") else judge
    asked = StageSettings("judge", "judge-model", at(judges)) if kind in ("llm", "embedding") else None
    # Models that classify say themselves how sure they are; the larger one's answer is pooled with the smaller's.
    classifies = judge == "classify"
    stages = tuple(
        StageSettings(name, f"{name}-model", at(stage), threshold, balancing="prefix")
        for name, threshold in (("small", 50.0), ("large", 0.0))
    )
    if judge == "narrow":
        stages = (replace(stages[0], max_model_len=100), *stages[1:])
    if classifies:
        stages = tuple(replace(each, task="classify", earlier_weight=0.5) for each in stages)
    return RouterSettings(
        stages=stages,
        judge=None if classifies else JudgeSettings(kind, asked, cache_size=0),  # type: ignore[arg-type]
        conversations=ConversationSettings("sticky"),
        limits=Limits(breaker_failures=10**9),
        health=Health(interval_s=3600.0),
        keys=KeySettings(Path("keys.json")),
        admin=AdminSettings(),
        watch_s=0.0,
    )
