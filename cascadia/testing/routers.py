"""A router that serves at a port of its own, in front of engines that answer as they are told; a judge by script.

>>> async def main() -> None:
...     small, large = FakeEngine("about four"), FakeEngine("4")
...     gate = ScriptedGate({"about four": 20.0})
...     async with started(small, large), running(stages(small, large, thresholds=(50.0,)), gate) as up:
...         answer = await up.chat()
...         print(answer.headers["x-cascadia-stage"], answer.json()["choices"][0]["message"]["content"])
>>> run(main)
large 4
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import uvloop

from cascadia.clients.processes.ports import listen
from cascadia.router.access.keys import Keyring
from cascadia.router.gates.base import Gate, JudgeFailed
from cascadia.router.server.app import Router
from cascadia.router.server.asgi_app import RouterApp
from cascadia.router.server.server import Server
from cascadia.router.settings.model import (
    Health,
    JudgeSettings,
    Limits,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, started

__all__ = [
    "PATIENT",
    "QUICK",
    "FakeEngine",
    "Running",
    "ScriptedGate",
    "Serving",
    "run",
    "running",
    "stages",
    "started",
    "until",
]

QUICK = Health(interval_s=0.05, again_s=0.02, timeout_s=60.0, failures=2, startup_s=60.0)
PATIENT = Limits(connect_s=60.0, head_s=60.0, body_s=60.0)
"""What must come in time comes in time, however busy the machine is; a test of a limit sets its own."""


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
    """A router that serves: at `port`, and by `client`. `lines` is its log, one document a request."""

    router: Router
    server: Server
    client: httpx.AsyncClient
    port: int
    lines: list[dict[str, Any]]

    async def chat(self, model: str = "cascadia", **more: Any) -> httpx.Response:
        """One request; `more` are fields of its body, but for `headers` and `path`."""
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


def _made(
    settings: tuple[StageSettings, ...] | RouterSettings,
    gate: Gate | None,
    judge: JudgeSettings | None,
    keyring: Keyring | None,
    prepare: Callable[[Router], object] | None,
    limits: dict[str, Any],
) -> tuple[Router, list[dict[str, Any]]]:
    """A router that is not started, and the list to which it writes its log."""
    if not isinstance(settings, RouterSettings):
        settings = RouterSettings(settings, judge, health=QUICK)
    settings = replace(settings, limits=replace(PATIENT, **limits))
    lines: list[dict[str, Any]] = []

    def write(content: bytes) -> None:
        lines.extend(json.loads(line) for line in content.splitlines())

    router = Router(settings, write, gate, keyring)
    if prepare is not None:
        prepare(router)
    return router, lines


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
    router, lines = _made(settings, gate, judge, keyring, prepare, limits)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = Server(router)
    await router.start()
    task = asyncio.create_task(server.serve(sockets=[listening]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
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
async def on_uvicorn(
    settings: tuple[StageSettings, ...] | RouterSettings,
    gate: Gate | None = None,
    judge: JudgeSettings | None = None,
    keyring: Keyring | None = None,
    prepare: Callable[[Router], object] | None = None,
    all_ready: bool = True,
    **limits: Any,
) -> AsyncIterator[Running]:
    """The same as `running`, served by uvicorn as an ASGI application."""
    import uvicorn

    router, lines = _made(settings, gate, judge, keyring, prepare, limits)
    application = RouterApp(lambda: router)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    config = uvicorn.Config(application, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
    web = uvicorn.Server(config)
    web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(web._serve(sockets=[listening]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        try:
            enough = all if all_ready else any
            await until(
                lambda: web.started and enough(r.state == "ready" for s in router.stages for r in s.replicas)
            )
            yield Running(router, await application.start(), client, port, lines)
        finally:
            (await application.start()).end()
            web.should_exit = True
            await task


Serving = Callable[..., AbstractAsyncContextManager[Running]]
"""`running` or `on_uvicorn`: what is claimed of one server can be held of both."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs `main` on the event loop that the router serves on."""
    uvloop.run(main())


async def until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Lets others run until `what` holds."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.005)
