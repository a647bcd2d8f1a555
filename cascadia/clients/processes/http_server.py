"""A small HTTP service of ours as a process. SIGTERM finishes what runs, and the exit code is 0."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
import uvloop
from starlette.types import ASGIApp

BACKLOG = 1024
KEEP_ALIVE_S = 75
CONNECTIONS_MAX = 4096
DRAIN_S = 30


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal again when all is done."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


def run(app: ASGIApp, listening: socket.socket, told: Callable[[], None]) -> None:
    """`told` is called once, when the socket accepts connections already."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )

    async def main() -> None:
        told()
        await _Server(config).serve(sockets=[listening])

    uvloop.run(main())
