"""A Redis for tests: fakeredis behind a TCP port, or whatever stands at one."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

from fakeredis import TcpFakeServer


@contextmanager
def fake_redis() -> Iterator[str]:
    """Its address; its threads end with the block."""
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


@contextmanager
def babbling_server(answer: bytes) -> Iterator[str]:
    """Says `answer` for each part of what it is told, whatever that was."""
    with speaking(lambda _number, _told, send: send(answer)) as url:
        yield url


@contextmanager
def speaking(says: Callable[[int, bytes, Callable[[bytes], object]], object]) -> Iterator[str]:
    """Address of a server; `says(number, told, send)` is called with what each of its connections is told."""
    numbers = count()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            number = next(numbers)
            with suppress(OSError):
                while told := self.request.recv(65536):
                    says(number, told, self.request.sendall)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join(timeout=60)


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    yield f"redis://127.0.0.1:{port}/0"
