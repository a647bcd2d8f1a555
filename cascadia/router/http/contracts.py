"""Contracts of a connection with the process that it belongs to, and with the requests that come over it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.http.asgi import Application
from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import Dates
from cascadia.router.openai.errors import ApiError

if TYPE_CHECKING:
    from cascadia.router.http.connection import ClientConnection
    from cascadia.router.settings.model import Limits


class Hot(Protocol):
    """Serves requests of `APIS`: `Service`."""

    def begin(self, exchange: Exchange) -> None: ...

    def turns_away(self, exchange: Exchange) -> ApiError | None:
        """Refusal of a request by its head alone, before a body that is large has come."""


class ServerContract(Protocol):
    """Server that all connections share: `Server`."""

    limits: "Limits"
    loop: asyncio.AbstractEventLoop
    connections: "set[ClientConnection]"
    dates: Dates
    next_id: Callable[[], bytes]

    def lost(self, client: "ClientConnection") -> None:
        """The connection is gone."""

    @property
    def closing(self) -> bool:
        """Tells whether connections are closed when they were idle for a moment."""

    @property
    def draining(self) -> bool:
        """Tells whether each answer is the last of its connection, so that clients move on before the port is
        closed.
        """

    @property
    def held(self) -> HeldBytes:
        """Counter of the bytes of answers that are held, those that wait for their clients to read among them."""

    def says_to_page(self, origin: bytes) -> bytes:
        """Header lines, whole, that answers to a page of `origin` have: see `access/cors.py`."""

    @property
    def service(self) -> "Hot":
        """Service that requests of `APIS` go to."""

    @property
    def routes(self) -> Application: ...


class Request(Protocol):
    """Request as its connection sees it: `Exchange` and `AsgiRequest`."""

    body: bytes
    length: int | None
    expects: bool
    more: bytes

    def begin(self) -> None:
        """Marks that it is here whole, and its answer may be written."""

    def leave(self) -> None:
        """Marks that its client is gone."""

    def probe(self) -> bool:
        """Sends the client something without meaning; False where there is no such thing."""
