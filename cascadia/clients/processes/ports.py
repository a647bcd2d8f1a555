"""Ports of this machine: to listen on, free, or reserved for one program at a time.

Between the look at a port and the moment that an engine listens there, seconds pass. So a port is reserved by a locked
file that all fleets of this user know; the lock ends with the process that holds it, however it ends.
"""

import errno
import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.files.addresses import authority

LAST = 65535
BACKLOG = 4096
HOST = "127.0.0.1"


class Reserved:
    """Port `number`, until `release`."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def reserve(first: int, folder: Path | None = None) -> Reserved:
    """The lowest port from `first` on that nobody has reserved or listens on. Raises `OSError` where there is none."""
    for port in range(first, LAST + 1):
        found = reserve_one(port, folder)
        if found is not None:
            return found
    raise OSError(f"no port from {first} on is free")


def reserve_one(port: int, folder: Path | None = None) -> Reserved | None:
    """`port`; None where somebody has reserved it or listens there. Raises `OSError`."""
    locks = folder or Path(tempfile.gettempdir()) / f"cascadia-ports-{os.getuid()}"
    locks.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(locks / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    found = Reserved(port, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_free(port):
            return found
    except BlockingIOError:
        pass
    found.release()
    return None


def free_port() -> int:
    """One that nobody listens on now; nothing keeps it so."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listen(host: str, port: int, *, backlog: int = BACKLOG, reuse_port: bool = False) -> socket.socket:
    """A listening socket; port 0 takes a free one. `reuse_port` shares it with others that do. Raises `OSError`."""
    if not host:
        raise OSError(errno.EINVAL, "an empty name would be all addresses")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen(backlog)
        listening.setblocking(False)
    except (TypeError, UnicodeError, ValueError):
        listening.close()
        raise OSError(errno.EINVAL, "no name of a host") from None
    except OSError:
        listening.close()
        raise
    return listening


def listen_as_told(
    host: str, port: int, option: str = "--port", host_option: str = "--host", **options: Any
) -> socket.socket:
    """As `listen`. Raises `BadInput` with the option to change."""
    try:
        return listen(host, port, **options)
    except OSError as error:
        what = f"cannot listen on {authority(host, port)} ({error.strerror})"
        if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
            raise BadInput(host_option, what, "name an address of this machine, e.g. 127.0.0.1") from None
        raise BadInput(option, what, "name another") from None


def is_free(port: int) -> bool:
    """Tells whether a server could listen there now."""
    return _why_not(port) is None


def is_taken(port: int) -> bool:
    """Tells whether somebody listens there, though this process might not."""
    return _why_not(port) == errno.EADDRINUSE


def _why_not(port: int) -> int | None:
    """The error's number of who would listen there now."""
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno
    return None
