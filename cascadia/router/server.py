"""The router as a process: uvicorn on uvloop, and what SIGTERM means."""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from cascadia.router.app import Router
from cascadia.router.protocol import limited

BACKLOG = 4096
KEEP_ALIVE_S = 75
MOST_DESCRIPTORS = 65_536
GC_THRESHOLDS = (20_000, 20, 20)


class Server(uvicorn.Server):
    """`stop` drains: what runs is finished, nothing new is taken. A second signal ends at once."""

    def __init__(self, router: Router) -> None:
        settings = router.settings
        self.router = router
        config = uvicorn.Config(
            router,
            http=limited(settings.limits, lambda: router.draining),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(settings.limits.drain_s)),
        )
        super().__init__(config)

    def stop(self) -> None:
        if self.router.draining:
            self.force_exit = True
        self.router.draining = True
        asyncio.get_running_loop().call_later(self.router.settings.limits.drain_notice_s, self._close)

    def _close(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise SIGTERM again when all is done; a drain that went well is exit code 0."""
        yield


async def serve(router: Router, listening: socket.socket) -> None:
    """Until `SIGTERM` or `SIGINT`, and what was under way then is done."""
    server = Server(router)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await router.start()
    try:
        await server.serve(sockets=[listening])
    finally:
        await router.stop()


def run(router: Router, listening: socket.socket, told: Callable[[], None]) -> None:
    """`told` is called once, before the first request can be served."""

    async def main() -> None:
        # What start-up made is here to stay, and a request leaves no cycles behind: looking through all of it time and
        # again took a tenth of the router's CPU.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        _allow_connections()
        told()
        await serve(router, listening)

    uvloop.run(main())


def _allow_connections() -> None:
    """As many descriptors as this process may have: each request holds two, and the usual 1,024 are soon gone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A listening socket; port 0 takes a free one. `reuse_port` shares it with others that do. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
