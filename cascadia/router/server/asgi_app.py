"""The router as an ASGI application, for an ASGI server of one's own or inside somebody's FastAPI."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

from cascadia.clients.processes.ports import listen
from cascadia.domain.errors import BadInput
from cascadia.router.access.keys_file import read_keys
from cascadia.router.http.asgi import Receive, Scope, Send
from cascadia.router.http.wire import JSON
from cascadia.router.live.reload import Reloader
from cascadia.router.observers.tracing_setup import tracing_from
from cascadia.router.openai.errors import ApiError
from cascadia.router.server.app import Router
from cascadia.router.server.asgi_bridge import Bridge
from cascadia.router.server.server import Server
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.log_writer import LogWriter

UNREADABLE = ApiError(400, "invalid_http", "The request's head cannot be read.")
VARIABLE = "CASCADIA_ROUTER_CONFIG"
"""Of the environment: the path of a router.yaml."""


class RouterApp:
    """Application that serves `make()`, a router, from the server's lifespan on.

    Where it is mounted, and told of no lifespan, it starts with its first request; whoever mounts it may begin and end
    it with `async with`.
    """

    def __init__(self, make: Callable[[], Router]) -> None:
        self._make = make
        self._starting = asyncio.Lock()
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._answer(await self.start(), scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> Server:
        """The server in whose name connections are made, begun once."""
        if self._server is None:
            async with self._starting:
                if self._server is None:
                    router = self._make()
                    await router.start()
                    server = Server(router)
                    self._serving = asyncio.create_task(server.serve([]))
                    self._server = server
        return self._server

    async def stop(self) -> None:
        """Finishes what is under way, within `drain_s`."""
        server, self._server = self._server, None
        if server is None or self._serving is None:
            return
        server.stop()
        await self._serving
        await server.router.stop()

    async def _answer(self, server: Server, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            bridge = Bridge(scope, server)
        except ValueError:
            headers = [JSON, (b"content-length", b"%d" % len(UNREADABLE.body))]
            await send({"type": "http.response.start", "status": UNREADABLE.status, "headers": headers})
            await send({"type": "http.response.body", "body": UNREADABLE.body})
            return
        asking = asyncio.ensure_future(bridge.ask(receive))
        try:
            await bridge.answer(send)
        finally:
            bridge.leave()
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except BadInput as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})


def app() -> RouterApp:
    """The application that serves the router.yaml named by the environment, read anew when it changes."""
    named = os.environ.get(VARIABLE)
    if not named:
        raise BadInput(VARIABLE, "is not set", f"name a router.yaml: {VARIABLE}=router.yaml")
    path = Path(named)

    def load() -> RouterSettings:
        found = read_settings(path)
        return replace(found, tracing=found.tracing or tracing_from(os.environ))

    def make() -> Router:
        settings = load()
        keyring = None if settings.keys is None else read_keys(settings.keys.file)
        log = LogWriter(_standard_error)
        router = Router(settings, log, keyring=keyring, write_event=log)
        log.failed = router.metrics.log_failures.inc
        router.reloader = Reloader(router, load)
        if settings.admin is not None and settings.admin.port is not None:
            from cascadia.router.admin.server import AdminServer

            router.admin = AdminServer(router, listen(settings.admin.host, settings.admin.port))
        return router

    load()
    return RouterApp(make)


def _standard_error(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
