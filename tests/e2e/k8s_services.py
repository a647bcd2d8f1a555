"""What the cluster's DNS does, simulated: the names of headless Services stand for the addresses of their ready pods.

Pods here have loopback addresses, which the API server takes for no Endpoints: so which pods a Service has is found
here, by its selector. A record is told for `LAG_S` after it has changed, as a DNS server's cache does.
"""

import json
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

LAG_S = 1.0

Names = dict[str, list[str]]


class Services:
    """`hosts` is a file of addresses by name, which simulated routers look names up in."""

    def __init__(self, client: httpx.AsyncClient, hosts: Path) -> None:
        self._client = client
        self.hosts = hosts
        self._seen: deque[tuple[float, Names]] = deque()

    async def look(self, pods: Iterable[dict[str, Any]]) -> None:
        found = (await self._client.get("/api/v1/services")).json()["items"]
        ready = [pod for pod in pods if _ready(pod)]
        names = {
            one["metadata"]["name"]: [
                pod["status"]["podIP"]
                for pod in ready
                if one["spec"].get("selector", {"": ""}).items() <= pod["metadata"]["labels"].items()
            ]
            for one in found
        }
        self._seen.append((time.monotonic(), names))
        while len(self._seen) > 1 and self._seen[1][0] < time.monotonic() - LAG_S:
            self._seen.popleft()
        beside = self.hosts.with_suffix(".new")
        beside.write_text(json.dumps(self._seen[0][1]))
        beside.replace(self.hosts)

    def addresses(self) -> Names:
        """As they are told now."""
        return self._seen[0][1] if self._seen else {}


def _ready(pod: dict[str, Any]) -> bool:
    said = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}
    return said.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
