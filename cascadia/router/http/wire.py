"""Bytes of an answer beside its body: status line, date, chunks, and the ids of requests."""

import itertools
import os
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus

JSON = (b"content-type", b"application/json")
JSON_LINE = b"content-type: application/json\r\n"
CLOSE_LINE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

Headers = list[tuple[bytes, bytes]]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def status_line(status: int) -> bytes:
    """Engines may answer with statuses that nobody has named."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d Unnamed\r\n" % status


def header_lines(headers: Headers) -> bytes:
    """Raises `ValueError` where a name or value could begin a line of its own."""
    lines = b"".join([name + b": " + value + b"\r\n" for name, value in headers])
    # Counted once behind the join, which is cheaper than looking at each name and value.
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers) or b"\0" in lines:
        raise ValueError("a header with a line break in it")
    return lines


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Dates:
    """The `date` line (RFC 9110, 6.6.1), written anew once a second."""

    __slots__ = ("_line", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = b"date: " + formatdate(second, usegmt=True).encode("ascii") + b"\r\n"
        return self._line


def ids() -> Callable[[], bytes]:
    """Unique among processes by a random start, within one by counting: a uuid costs more than all else here."""
    start = os.urandom(8).hex().encode("ascii") + b"-"
    numbers = itertools.count(1)
    return lambda: start + b"%x" % next(numbers)
