"""`/admin/` at a port of its own, beside the router's, so that a firewall can tell them apart."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from cascadia.router.admin_face import admin_face

if TYPE_CHECKING:
    from cascadia.router.app import Router

MOST_CONNECTIONS = 64
DRAIN_S = 5


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the router's."""
        yield


class AdminServer:
    """`listening` is closed in the end."""

    def __init__(self, router: "Router", listening: socket.socket) -> None:
        self._router = router
        self._listening = listening
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        config = uvicorn.Config(
            admin_face(self._router),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listening]))

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
