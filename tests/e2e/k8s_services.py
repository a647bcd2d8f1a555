"""What kube-proxy and DNS do, on loopback: each Service has an address, and a connection there goes to one of its pods.

Which pods those are is said by the Endpoints that the real controller manager keeps. As with kube-proxy, a connection
that is open stays with its pod.
"""

import asyncio
import random
import re
from contextlib import suppress

import httpx

PORT = 8000


class Services:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._addresses: dict[str, str] = {}
        self._endpoints: dict[str, list[str]] = {}
        self._servers: dict[str, asyncio.Server] = {}

    def addressed(self, text: str) -> str:
        """router.yaml with addresses for names."""
        return re.sub(r"http://([a-z0-9-]+):", lambda found: f"http://{self.address(found[1])}:", text)

    def address(self, name: str) -> str:
        return self._addresses.setdefault(name, f"127.32.0.{len(self._addresses) + 1}")

    async def look(self) -> None:
        found = (await self._client.get("/api/v1/endpoints")).json()["items"]
        self._endpoints = {
            one["metadata"]["name"]: [
                address["ip"] for subset in one.get("subsets", ()) for address in subset.get("addresses", ())
            ]
            for one in found
        }
        for name, address in self._addresses.items():
            if name not in self._servers:
                self._servers[name] = await asyncio.start_server(self._to(name), address, PORT)

    def _to(self, name: str):  # type: ignore[no-untyped-def]
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            pods = self._endpoints.get(name)
            if pods:
                with suppress(OSError):
                    there, back = await asyncio.open_connection(random.choice(pods), PORT)
                    await asyncio.gather(_pump(reader, back), _pump(there, writer))
            writer.close()

        return serve


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while part := await source.read(65536):
            sink.write(part)
            await sink.drain()
    sink.close()
