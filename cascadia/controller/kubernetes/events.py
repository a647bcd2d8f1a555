"""Events of the controller's Deployment, which say what it decides and does: `kubectl describe deployment
cascadia-controller`.

Steps are left to the history. The cluster is spared: so many may come at once, then one each while; what is said again
is counted at the Event that says it. An Event that cannot be written stops nobody; it is counted as lost.
"""

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cascadia.clients.cluster.kubernetes_api import ApiFailed, Document, KubernetesApi
from cascadia.controller.kubernetes.lease import LeaseLost
from cascadia.controller.memory.history import Entry, Kind
from cascadia.render.kubernetes.controller import NAME
from cascadia.render.kubernetes.release import Release

REASONS: Mapping[Kind, str] = {
    "alarm": "TrafficChanged",
    "decision": "Decided",
    "begun": "MoveBegun",
    "moved": "Moved",
    "rolled-back": "RolledBack",
    "failed": "MoveFailed",
    "adopted": "Adopted",
    "given": "PlanGiven",
    "holding": "Holding",
    "held": "Held",
    "handed-back": "HandedBack",
    "speed": "SpeedChanged",
    "scaled": "Scaled",
    "profile": "RatesKept",
    "gears": "GearsCompared",
    "clock": "ClockSet",
}
WARNINGS = ("rolled-back", "failed")
AT_ONCE = 25
EACH_S = 12.0
"""After that, one in so many seconds: 300 an hour."""
SAME_WITHIN_S = 600.0
MOST_WAITING = 100
LONGEST = 1024
"""Letters of a message: the API server takes no more."""
LAST_S = 2.0
"""At its end, for what still waits."""


@dataclass(slots=True)
class _Written:
    name: str
    at_s: float
    count: int = 1


class Events:
    """`lost` is told why one was not written: `rate` or `api`. `clock` counts seconds that pass."""

    def __init__(
        self,
        api: KubernetesApi,
        release: Release,
        holder: str,
        *,
        lost: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._release = release
        self._holder = holder
        self._lost = lost
        self._clock = clock
        self._waiting: deque[Entry] = deque()
        self._came = asyncio.Event()
        self._left, self._filled_s = float(AT_ONCE), clock()
        self._written: dict[tuple[str, str], _Written] = {}
        self._about: Document | None = None

    def tell(self, entry: Entry) -> None:
        if entry.kind not in REASONS:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._lost("rate")
            return
        self._waiting.append(entry)
        self._came.set()

    async def keep(self) -> None:
        """Writes what is told, until it is cancelled; then what waits still."""
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                await self.flush()
        finally:
            async with asyncio.timeout(LAST_S):
                await self.flush()

    async def flush(self) -> None:
        while self._waiting:
            entry = self._waiting.popleft()
            if not self._may():
                self._lost("rate")
                continue
            try:
                await self._write(entry)
            except (ApiFailed, LeaseLost, TimeoutError):
                self._lost("api")

    def _may(self) -> bool:
        now_s = self._clock()
        self._left = min(AT_ONCE, self._left + (now_s - self._filled_s) / EACH_S)
        self._filled_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    async def _write(self, entry: Entry) -> None:
        said = entry.kind, entry.what
        now_s = self._clock()
        self._written = {k: w for k, w in self._written.items() if now_s - w.at_s < SAME_WITHIN_S}
        if (before := self._written.get(said)) is not None:
            part = {"count": before.count + 1, "lastTimestamp": _stamp(entry.at_s)}
            await self._api.merge("Event", before.name, part)
            before.count, before.at_s = before.count + 1, now_s
            return
        document = await self._document(entry)
        await self._api.create(document)
        self._written[said] = _Written(document["metadata"]["name"], now_s)

    async def _document(self, entry: Entry) -> Document:
        if self._about is None:
            self._about = await self._deployment()
        component = self._release.named(NAME)
        about = self._release.metadata(NAME, NAME)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {**about, "name": f"{component}.{uuid.uuid4().hex[:16]}"},
            "involvedObject": self._about,
            "type": "Warning" if entry.kind in WARNINGS else "Normal",
            "reason": REASONS[entry.kind],
            "message": entry.what[:LONGEST],
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": self._holder,
            "firstTimestamp": _stamp(entry.at_s),
            "lastTimestamp": _stamp(entry.at_s),
            "count": 1,
        }

    async def _deployment(self) -> Document:
        name = self._release.named(NAME)
        found = await self._api.get("Deployment", name)
        uid = {} if found is None else {"uid": found["metadata"]["uid"]}
        about = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "namespace": self._api.namespace,
        }
        return {**about, **uid}


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
