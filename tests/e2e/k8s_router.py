"""Routers on simulated nodes: the real program, or something that says as much as a controller asks."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from cascadia.clients.processes.health import get
from tests.e2e.k8s_services import Services

PORT = 8000


class RealRouter:
    """`cascadia serve` in a process, which looks up the names of Services where they are simulated."""

    def __init__(self, address: str, folder: Path, services: Services) -> None:
        self.address = address
        self.environment: dict[str, str] = {}
        self._folder = folder
        self._services = services
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, text: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / ".router.yaml"
        beside.write_text(text)
        beside.replace(self._folder / "router.yaml")

    async def start(self) -> None:
        program = [sys.executable, "-m", "tests.e2e.k8s_router_program", str(self._services.hosts)]
        command = [*program, "serve", str(self._folder / "router.yaml")]
        log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            [*command, "--host", self.address, "--port", str(PORT), "--no-log"],
            stdout=log,
            stderr=log,
            env={**os.environ, **self.environment},
        )
        log.close()

    async def ready(self) -> bool:
        return (await get(self.address, PORT, "/ready"))[0] == 200

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


class FakeRouter:
    """Says which revision of its file it has, as soon as it has it, and has no samples."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._revision = ""
        self._server: asyncio.Server | None = None

    def write(self, text: str) -> None:
        self._revision = (yaml.safe_load(text) or {}).get("revision", "")

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.address, PORT)

    async def ready(self) -> bool:
        return self._server is not None

    async def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        ready = {"ready": True, "revision": self._revision}
        text = json.dumps([] if head.startswith(b"GET /samples") else ready).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(text) + text)
        await writer.drain()
        writer.close()
