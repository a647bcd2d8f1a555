"""`/admin/` at a port of its own, beside the router's, so that a firewall can tell them apart."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.admin.routes import Administered, admin_routes
from cascadia.router.http.connection import ClientConnection
from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import Dates, ids
from cascadia.router.openai.errors import ApiError
from cascadia.router.settings.model import RouterSettings

MOST_CONNECTIONS = 64
SWEEP_S = 0.5
_ELSEWHERE = ApiError(404, "unknown_url", "Models are served at the router's own port.")


class _NoModels:
    """Service of a port at which no model is asked."""

    def begin(self, exchange: Exchange) -> None:
        exchange.error(_ELSEWHERE)

    def turns_away(self, exchange: Exchange) -> ApiError | None:  # noqa: ARG002 (of no request is the body wanted)
        return _ELSEWHERE


class Draining(Administered, Protocol):
    """A router that may be about to end."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def draining(self) -> bool: ...

    @property
    def held(self) -> HeldBytes: ...


class AdminServer:
    """Server of the admin port: what its connections share. `listening` is closed in the end."""

    closing = False

    def __init__(self, router: Draining, listening: socket.socket) -> None:
        self._router = router
        self._listening = listening
        self._listener: asyncio.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self.limits = replace(router.settings.limits, max_connections=MOST_CONNECTIONS)
        self.connections: set[ClientConnection] = set()
        self.dates = Dates()
        self.next_id: Callable[[], bytes] = ids()
        self.service = _NoModels()
        self.routes = admin_routes(router)
        self.loop: asyncio.AbstractEventLoop

    @property
    def draining(self) -> bool:
        return self._router.draining

    @property
    def held(self) -> HeldBytes:
        return self._router.held

    def says_to_page(self, origin: bytes) -> bytes:  # noqa: ARG002 (no page elsewhere is let at this port)
        return b""

    def lost(self, client: ClientConnection) -> None:
        self.connections.discard(client)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._listener = await self.loop.create_server(lambda: ClientConnection(self), sock=self._listening)
        self._sweep()

    async def stop(self) -> None:
        """Stops at once: who drains a router has read what it wanted to know."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self._listener is not None:
            self._listener.close()
        for client in tuple(self.connections):
            client.transport.abort()

    def _sweep(self) -> None:
        now_s = self.loop.time()
        for client in tuple(self.connections):
            client.close_overdue(now_s)
        self._sweep_timer = self.loop.call_later(SWEEP_S, self._sweep)
