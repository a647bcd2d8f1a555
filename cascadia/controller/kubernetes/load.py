"""Load of a release, as its routers tell it together."""

import asyncio
from urllib.parse import urlsplit

from cascadia.clients.processes.health import get
from cascadia.controller.kubernetes.routers import Routers
from cascadia.controller.scale.load import RoutersLoad
from cascadia.controller.scale.size import Load


class KubernetesLoad:
    """Reader of it. None is told while a router that serves does not answer: the rest would look like less load."""

    def __init__(self, routers: Routers) -> None:
        self._routers = routers
        self._told = RoutersLoad()

    async def load(self) -> Load | None:
        urls = [source.url for source in await self._routers.sources() if source.serves]
        at = map(urlsplit, urls)
        found = await asyncio.gather(*(get(u.hostname or "", u.port or 80, "/metrics") for u in at))
        if any(status != 200 for status, _ in found):
            return None
        return self._told.load({url: body.decode() for url, (_, body) in zip(urls, found, strict=True)})
