"""Ports of this machine that nobody listens on."""

import socket
from collections.abc import Container

LAST = 65535


def free_port(first: int, taken: Container[int] = (), host: str = "127.0.0.1") -> int:
    """The lowest from `first` on that is free and not in `taken`. Raises `OSError` where there is none."""
    for port in range(first, LAST + 1):
        if port not in taken and _is_free(host, port):
            return port
    raise OSError(f"no port from {first} on is free")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
