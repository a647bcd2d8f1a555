"""Load of a fleet on this machine, as its router tells it."""

from pathlib import Path
from urllib.parse import urlsplit

from cascadia.clients.processes.health import get
from cascadia.controller.local.control_socket import ask
from cascadia.controller.scale.load import RoutersLoad
from cascadia.controller.scale.size import Load


class LocalLoad:
    """`folder`: of the fleet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._routers = RoutersLoad()

    async def load(self) -> Load | None:
        router = (await ask(self._folder, "observe"))["router"]
        if router is None:
            return None
        at = urlsplit(router["url"])
        status, body = await get(at.hostname or "127.0.0.1", at.port or 80, "/metrics")
        return self._routers.load({"": body.decode()}) if status == 200 else None
