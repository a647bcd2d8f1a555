"""Asks DNS for the replicas behind names, time and again, and has the router serve by what it says."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from cascadia.router.replicas.dns_names import Addresses, names_of
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.request_log import Journal

LEAST_S = 0.01


class Swappable(Protocol):
    """Router as seen by what looks up its replicas' names. `events` gets what was found."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def events(self) -> Journal: ...

    def swap(self, settings: RouterSettings) -> None: ...


class Resolver:
    """`known`: what each name was last found to have. A name that cannot be looked up, or has no address any more,
    keeps those that it had: whether they are still there their health checks tell."""

    def __init__(self, router: Swappable) -> None:
        self._router = router
        self.lookup: Callable[[str], Awaitable[tuple[str, ...]]] = addresses_of
        self._asking: asyncio.Task[None] | None = None
        self.known: Addresses = {}

    def start(self) -> None:
        self._asking = asyncio.create_task(self._ask())

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 (the boundary: what serves goes on, and is looked up again)
                tell("looking up names failed", error)
            await asyncio.sleep(max(LEAST_S, self._router.settings.health.resolve_s))

    async def _look(self) -> None:
        names = sorted(names_of(self._router.settings))
        found = await asyncio.gather(*map(self.lookup, names))
        known = {
            name: addresses or self.known.get(name, ()) for name, addresses in zip(names, found, strict=True)
        }
        known = {name: addresses for name, addresses in known.items() if addresses}
        if known != self.known:
            self.known = known
            self._router.swap(self._router.settings)
            self._router.events.line({"event": "resolved", "addresses": known})


async def addresses_of(name: str) -> tuple[str, ...]:
    """All of one family, the one that this machine prefers: a pod with two is one pod. Empty where there are none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    # One family: a replica with an address in both would count as two.
    return tuple(sorted({str(address[0]) for family, *_, address in found if family == found[0][0]}))
