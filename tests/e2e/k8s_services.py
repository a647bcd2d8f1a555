"""What the cluster's DNS does, simulated: the names of headless Services stand for the addresses of their ready pods.

Which those are is said by the Endpoints that the real controller manager keeps. A record is told for `LAG_S` after it
has changed, as a DNS server's cache does.
"""

import json
import time
from collections import deque
from pathlib import Path

import httpx

LAG_S = 1.0

Names = dict[str, list[str]]


class Services:
    """`hosts` is a file of addresses by name, which simulated routers look names up in."""

    def __init__(self, client: httpx.AsyncClient, hosts: Path) -> None:
        self._client = client
        self.hosts = hosts
        self._seen: deque[tuple[float, Names]] = deque()

    async def look(self) -> None:
        found = (await self._client.get("/api/v1/endpoints")).json()["items"]
        names = {
            one["metadata"]["name"]: [
                address["ip"] for subset in one.get("subsets", ()) for address in subset.get("addresses", ())
            ]
            for one in found
        }
        self._seen.append((time.monotonic(), names))
        while len(self._seen) > 1 and self._seen[1][0] < time.monotonic() - LAG_S:
            self._seen.popleft()
        beside = self.hosts.with_suffix(".new")
        beside.write_text(json.dumps(self._seen[0][1]))
        beside.replace(self.hosts)
