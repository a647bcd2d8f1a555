"""Lease of the release: the controller that holds it acts, and no other.

A holder renews it in time. Others watch it, by their own clocks: one that has not changed for its whole duration is
free. Every change is made on condition that nobody else has changed it since it was read, so only one can win.

`fence` stands before each change to the cluster. It renews the lease where that was not done just now; a call to the
API server takes less than what is left of it then. So a controller that was asleep, or cut off, cannot act beside its
successor.
"""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime

from cascadia.clients.cluster.kubernetes_api import TIMEOUT_S, ApiFailed, Document, KubernetesApi
from cascadia.domain.errors import CascadiaError

DURATION_S = 15.0
RENEW_S = 4.0
FRESH_S = 2.0
LOOK_S = 1.0

# A renewal counts from its beginning and may take a whole timeout, and so may the call that it stands before.
assert FRESH_S + 2 * TIMEOUT_S < DURATION_S


class LeaseLost(CascadiaError):
    """Another controller acts, or may do so: this one must not do anything more."""


class Lease:
    """`holder` is a name that no other process has. `duration_s` is the same for all who ask for this lease."""

    def __init__(
        self, api: KubernetesApi, document: Document, holder: str, duration_s: float = DURATION_S
    ) -> None:
        self._api = api
        self._made = document
        self._name = str(document["metadata"]["name"])
        self._holder = holder
        self._duration_s = duration_s
        self._held: Document | None = None
        self._renewed_s = -float("inf")
        self._turn = asyncio.Lock()

    @property
    def held(self) -> bool:
        return self._held is not None

    async def acquire(self) -> None:
        """Returns when it is ours."""
        seen, since_s = "", time.monotonic()
        while True:
            try:
                found = await self._api.get("Lease", self._name)
                if found is None:
                    await self._take(None)
                    return
                version = found["metadata"]["resourceVersion"]
                if version != seen:
                    seen, since_s = version, time.monotonic()
                free = not found.get("spec", {}).get("holderIdentity")
                if free or time.monotonic() - since_s > self._duration_s:
                    await self._take(found)
                    return
            except ApiFailed:
                pass  # somebody was quicker, or the API server is away: look again
            await asyncio.sleep(LOOK_S)

    async def keep(self) -> None:
        """Renews it for as long as it is ours. Raises `LeaseLost`."""
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(ApiFailed):
                await self._renew()
            if time.monotonic() - self._renewed_s > self._duration_s - FRESH_S:
                self._held = None
                raise LeaseLost("the API server could not be asked in time to keep the lease")

    async def fence(self) -> None:
        """Makes sure that the lease is ours for one more call. Raises `LeaseLost`, and `ApiFailed` where that
        cannot be told.
        """
        if self._held is not None and time.monotonic() - self._renewed_s < FRESH_S:
            return
        await self._renew()

    async def release(self) -> None:
        """The next may begin at once."""
        if self._held is not None:
            spec = self._held["spec"] | {"holderIdentity": ""}
            with suppress(ApiFailed):
                await self._api.replace({**self._held, "spec": spec})
            self._held = None

    async def _renew(self) -> None:
        async with self._turn:
            if self._held is None:
                raise LeaseLost("another controller acts")
            began_s = time.monotonic()
            spec = self._held["spec"] | {"renewTime": _now()}
            try:
                self._held = await self._api.replace({**self._held, "spec": spec})
            except ApiFailed as error:
                if error.status in (404, 409) and not await self._found_again():
                    self._held = None
                    raise LeaseLost("another controller has taken the lease") from None
                raise
            self._renewed_s = began_s

    async def _found_again(self) -> bool:
        """A renewal whose answer was lost looks like somebody else's."""
        found = await self._api.get("Lease", self._name)
        if found is not None and found["spec"].get("holderIdentity") == self._holder:
            self._held = found
            return True
        return False

    async def _take(self, found: Document | None) -> None:
        began_s = time.monotonic()
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": int(self._duration_s),
            "acquireTime": _now(),
            "renewTime": _now(),
            "leaseTransitions": found["spec"].get("leaseTransitions", 0) + 1 if found else 0,
        }
        if found is None:
            self._held = await self._api.create({**self._made, "spec": spec})
        else:
            self._held = await self._api.replace({**found, "spec": spec})
        self._renewed_s = began_s


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
