"""The router as a process: connections on uvloop, and what SIGTERM means."""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import uvloop

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.clients.processes.ports import BACKLOG
from cascadia.router.access.cors import lines_for
from cascadia.router.handlers.service import Service
from cascadia.router.http.asgi import Application
from cascadia.router.http.connection import ClientConnection
from cascadia.router.http.wire import Dates, ids
from cascadia.router.server.app import Router
from cascadia.router.server.asleep import Heartbeats, watch_own
from cascadia.router.server.pulse import end_where_stalled
from cascadia.router.server.workers import AT_ONCE, DRAIN, hear
from cascadia.router.telemetry.internal_errors import of_loop

MOST_DESCRIPTORS = 65_536
OWN_DESCRIPTORS = 96
"""Of logs, sockets of its own, clients that are being refused, and what libraries open."""
DESCRIPTORS_PER_CLIENT = 3
FEW_CLIENTS = 4096
"""Room for fewer is told in the log."""
GC_THRESHOLDS = (2_500, 1_000, 20)
"""So few young objects are looked at in less than a millisecond or two; 20,000 held every stream up for 3 to 7. Those
that outlive it are streams, which leave no cycles."""
SUCCESSOR_S = 15.0
"""For another process to serve in this one's place; then it drains all the same."""
SWEEP_S = 0.25
"""How often connections are looked over for clients that are too slow: one timer for all, none a request."""
SWEPT_A_TURN = 64
"""Of thousands, so few at a time: all together would hold up every stream."""


class Server:
    """`stop` drains: what runs is finished, nothing new is taken. A second call ends at once."""

    def __init__(self, router: Router, descriptors: int | None = None) -> None:
        """`descriptors`: that this process may have, where that bounds its connections."""
        self.router = router
        self.limits = router.limits
        most = self.limits.max_connections if descriptors is None else clients_of(descriptors)
        if most < self.limits.max_connections:
            self.limits = replace(self.limits, max_connections=most)
            if most < FEW_CLIENTS:
                router.events.line({"event": "limited", "max_connections": most, "descriptors": descriptors})
        self.loop = asyncio.get_running_loop()
        self.connections: set[ClientConnection] = set()
        self.dates = Dates()
        self.next_id = ids()
        self.started = False
        self._closing = asyncio.Event()
        self._over = asyncio.Event()
        self._listening = True
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._unswept: list[ClientConnection] = []
        router.held.relief = self._relieve

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    @property
    def draining(self) -> bool:
        return self.router.draining

    @property
    def held(self) -> HeldBytes:
        return self.router.held

    @property
    def service(self) -> Service:
        # By the shortest way: asked for each request.
        return self.router.plans.now.service

    @property
    def routes(self) -> Application:
        return self.router.routes

    def says_to_page(self, origin: bytes) -> bytes:
        cors = self.router.settings.cors
        return b"" if cors is None else lines_for(cors, origin)

    def stop(self) -> None:
        if self.router.draining:
            self.end()
        self.drain()

    def drain(self) -> None:
        """Drains; said again, it changes nothing."""
        if not self.router.draining:
            self.router.draining = True
            # Balancers are to see `/ready` fail before connections are refused.
            self.loop.call_later(self.limits.drain_notice_s, self._closing.set)

    def end(self) -> None:
        """Ends without waiting for anything."""
        self._over.set()
        self._closing.set()

    def leave(self, ask: Callable[[], None]) -> None:
        """Takes requests until there is another process to take them, which is asked for; then drains."""
        if not self.router.draining:
            ask()
            self.loop.call_later(SUCCESSOR_S, self.drain)

    async def serve(self, sockets: list[socket.socket], told: Callable[[], None] | None = None) -> None:
        """Serves until `stop`, and what was under way then is done; not for longer than `drain_s`. `told` is called
        once clients are taken."""
        listeners = [
            await self.loop.create_server(lambda: ClientConnection(self), sock=listening, backlog=BACKLOG)
            for listening in sockets
        ]
        self._sweep()
        self.started = True
        if told is not None:
            told()
        try:
            await self._closing.wait()
            waiting = [one for listening in sockets for one in waiting_at(listening)]
            for listener in listeners:
                listener.close()
            for one in waiting:
                with contextlib.suppress(OSError):
                    await self.loop.connect_accepted_socket(lambda: ClientConnection(self), one)
            self._listening = False
            await self._drain()
        finally:
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
            for client in tuple(self.connections):
                client.transport.abort()

    def lost(self, client: ClientConnection) -> None:
        self.connections.discard(client)
        if not self._listening and not self.connections:
            self._over.set()

    async def _drain(self) -> None:
        for client in tuple(self.connections):
            client.drain()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.drain_s):
                    await self._over.wait()

    def _relieve(self) -> bool:
        """What nobody reads must not exhaust the router: breaks off the answer that has waited for its client for the
        longest; False where there is none."""
        behind = [client for client in self.connections if client.full]
        if behind:
            min(behind, key=lambda client: client.full_s).drop()
        return bool(behind)

    def _sweep(self) -> None:
        now_s = self.loop.time()
        for client in self._unswept[-SWEPT_A_TURN:]:
            if not client.gone:
                client.close_overdue(now_s)
        del self._unswept[-SWEPT_A_TURN:]
        turns = max(1, len(self.connections) / SWEPT_A_TURN)
        self._unswept = self._unswept or list(self.connections)
        self._sweep_timer = self.loop.call_later(SWEEP_S / turns, self._sweep)


def waiting_at(listening: socket.socket) -> Iterator[socket.socket]:
    """Clients that are connected and were not taken yet: they know no better than to be served, and closing
    `listening` would reset them.
    """
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            client.setblocking(False)
            yield client


def clients_of(descriptors: int) -> int:
    """Number of clients that may be connected so that each finds a connection to an engine beside one that is
    kept idle.
    """
    return max(1, (descriptors - OWN_DESCRIPTORS) // DESCRIPTORS_PER_CLIENT)


async def serve(
    router: Router,
    listening: socket.socket,
    told: Callable[[], None],
    descriptors: int | None = None,
    leave: Callable[[], None] | None = None,
) -> None:
    """Serves until `SIGTERM` or `SIGINT`, and what was under way then is done. A second one ends it at once; among
    several processes that is for their parent to say, whom `leave` asks for a successor."""
    server = Server(router, descriptors)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop if leave is None else partial(server.leave, leave))
    loop.add_signal_handler(signal.SIGHUP, router.hang_up)
    if leave is not None:
        loop.add_signal_handler(DRAIN, server.drain)
        loop.add_signal_handler(AT_ONCE, server.end)
    hear()
    await router.start()
    try:
        await server.serve([listening], told)
    finally:
        await router.stop()


def run(
    router: Router,
    listening: socket.socket,
    told: Callable[[], None],
    heartbeats: Heartbeats | None = None,
    number: int = 0,
    leave: Callable[[], None] | None = None,
) -> None:
    """`told` is called once clients are taken. `heartbeats`: where the parent looks whether the loop of this process,
    its `number`, goes on; without it a thread of this process does. `leave` asks the parent for a successor.
    """
    limits = router.settings.limits
    mine = heartbeats or Heartbeats()
    if heartbeats is None and limits.blocked_s:
        watch_own(mine, limits.blocked_s)

    async def main() -> None:
        # What start-up made is here to stay, and a request leaves no cycles behind: looking through all of it time and
        # again took a tenth of the router's CPU.
        asyncio.get_running_loop().set_exception_handler(of_loop)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        descriptors = _descriptors()
        turn = partial(mine.add, number) if limits.blocked_s else None
        end_where_stalled(asyncio.get_running_loop(), limits.stall_s, turn)
        try:
            await serve(router, listening, told, descriptors, leave)
        finally:
            mine.end(number)

    uvloop.run(main())


def _descriptors() -> int:
    """Takes as many descriptors as this process may have: each request holds two, and the usual 1,024 are soon
    gone.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
