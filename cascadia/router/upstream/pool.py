"""Connections to one engine, kept for the next request: last in, first out, so that few stay warm and the rest go."""

import asyncio
import ssl
import sys
from collections import deque
from urllib.parse import urlsplit

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.clients.engines.proxies import proxy_of
from cascadia.router.upstream.connect_errors import kind_of
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.tunnel import tunnel

KEPT_S = 30.0
"""An idle connection is not kept for longer."""

LIVES_S = 10.0
"""Nor is one older than this. An address can be a Kubernetes Service: it gives a stopping engine no new connections,
but leaves it those that it has, so these must end before the engine does (the chart lets it wait 35 s)."""


class Pool:
    """`url` is the engine's own, without a path. `connect_s` limits how long a new connection may take.

    `address`: the one to connect to, where the host of `url` names several; without a proxy then. `held`: what counts
    the bytes of answers. Raises `BadInput` where the environment's proxy is none that can be asked.
    """

    def __init__(
        self, url: str, connect_s: float, address: str | None = None, held: HeldBytes | None = None
    ) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.address = address or self.host
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.netloc = parts.netloc.rpartition("@")[2]
        self.connect_s = connect_s
        self.held = held or HeldBytes(sys.maxsize)
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.proxy = None if address else proxy_of(url)
        # And when each was opened.
        self.open: dict[Connection, float] = {}
        self.idle: deque[Connection] = deque()

    def take(self) -> Connection | None:
        """A connection from before, where one is left."""
        while self.idle:
            connection = self.idle.pop()
            if connection.transport is not None and not connection.transport.is_closing():
                connection.reused = True
                return connection
        return None

    async def connect(self) -> Connection:
        """A new connection. Raises `UpstreamError` of a kind of `NOT_CONNECTED`, or `exhausted`."""
        loop = asyncio.get_running_loop()
        begun: list[Connection] = []

        def begin() -> Connection:
            begun.append(Connection(loop, self._lost, self.held))
            return begun[0]

        name = self.host if self.tls else None
        try:
            async with asyncio.timeout(self.connect_s):
                if self.proxy is not None and self.tls is not None:
                    way = await tunnel(self.proxy, self.host, self.port)
                    connection = begin()
                    secured = await loop.start_tls(way, connection, self.tls, server_hostname=name)
                    assert secured is not None
                    connection.connection_made(secured)
                else:
                    _, connection = await loop.create_connection(
                        begin, self.address, self.port, ssl=self.tls, server_hostname=name
                    )
        except TimeoutError:
            raise UpstreamError("connect", "no connection in time") from None
        except OSError as error:
            raise UpstreamError(kind_of(error), type(error).__name__) from None
        except UnicodeError as error:
            raise UpstreamError("dns", type(error).__name__) from None
        else:
            begun.clear()
        finally:
            # Of one that came to nothing nobody tells it that it is lost.
            for each in begun:
                each.forget()
        self.open[connection] = loop.time()
        return connection

    def release(self, connection: Connection) -> None:
        """Takes a connection back after its exchange: kept where it can take another, closed where not. Of no
        effect a second time, when it may be somebody else's.
        """
        if not connection.busy or not connection.finish():
            return
        now_s = connection.loop.time()
        if now_s - self.open.get(connection, now_s) > LIVES_S:
            connection.abort()
            return
        connection.idle_since_s = now_s
        self.idle.append(connection)
        if now_s - self.idle[0].idle_since_s > KEPT_S:
            # The oldest only: a timer for each idle connection would cost more than one that stays a little
            # longer.
            self.idle.popleft().abort()

    def fail_unanswered(self, error: UpstreamError) -> None:
        """Every exchange of whose answer nobody has seen ends with `error`: the engine is known to be gone."""
        for connection in tuple(self.open):
            if connection.busy and not connection.passed_on:
                connection.fail(error)

    def close(self) -> None:
        for connection in tuple(self.open):
            connection.abort()
        self.idle.clear()

    def _lost(self, connection: Connection) -> None:
        self.open.pop(connection, None)
        if not connection.busy and connection in self.idle:
            self.idle.remove(connection)
