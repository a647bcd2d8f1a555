"""Results of a stage's engines: a whole answer, one under way, or a refusal, and whose fault that is."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

from cascadia.router.replicas.replica import Replica
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.said import said

T = TypeVar("T")
Reader = Callable[[bytes, bytes], Awaitable[T]]
"""Given content type and body of a 200. Raises `UpstreamError` where they are no answer."""
Done = Callable[[bool | None], None]
"""Ends a request at its replica: True where that did well, None where it cannot be told."""

_MISCONFIGURED = frozenset({401, 402, 404, 405, 407})
"""Not the client's doing: key, its credit, model and path of what an engine gets are the router's."""
_FORBIDDEN = 403
"""A wrong key, or a filter in front of somebody else's API that stopped this prompt: others may do well there."""
_FAULT, _MISTAKE = 500, 400
_UNREAD = re.compile(rb'"message"\s*:\s*"Failed to parse (?:messages|tools)\b')
"""llama.cpp's words, with a 500, for a request that is not as it must be: five would close it to everybody."""
_BEGINNING = 512
_BUSY = frozenset({408, 409, 425, 429})
MISSING = frozenset({404, 405})
"""Not here, be it what was asked for or the path."""
NOT_IMPLEMENTED = 501
LACKING = MISSING | {NOT_IMPLEMENTED}
"""What the engine says of an API that it does not have."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A whole answer: status 200, and what was `found` in it; or a 4xx (or 501) that the client has caused."""

    status: int
    content_type: bytes
    body: bytes
    found: T | None = None
    first_at_s: float | None = None
    """When its body began, in the loop's time; of an event stream only."""


class Live:
    """An answer under way since `started_s`, which nobody wants after `deadline_s`. `first` is its first part; `close`
    must be called in the end."""

    __slots__ = ("_connection", "_done", "_replica", "deadline_s", "first", "reply", "started_s")

    def __init__(
        self, replica: Replica, connection: Connection, done: Done, *, started_s: float, deadline_s: float
    ) -> None:
        self._replica = replica
        self._connection = connection
        self._done = done
        self.started_s = started_s
        self.deadline_s = deadline_s
        self.first = b""
        self.reply: Reply[None] | None = None
        """Set where it turned out to be a refusal instead."""

    def some(self, passes: Callable[[bytes], bool] | None = None) -> Awaitable[bytes]:
        """The next part, less what `passes` takes (`Connection.some`); empty at the end. Raises `UpstreamError`."""
        return self._connection.some(passes)

    def close(self, ok: bool | None) -> None:
        """`ok`: whether the engine did well; None where it cannot be told."""
        self._replica.pool.release(self._connection)
        self._done(ok)


def refuse(connection: Connection, body: bytes = b"", key: str | None = None) -> int:
    """Status that the client is told: its own doing. Raises for one that another replica may not give, and that the
    client has not caused. `key`: the router's own at this engine."""
    return refuse_status(connection.answer.status, connection.answer.retry_after, body, key)


def refuse_status(
    status: int, retry_after: bytes, body: bytes, key: str | None, *, several: bool = False
) -> int:
    """As `refuse`, of a status that came with the answer or within it. `several`: of requests of several clients, of
    which no client is told what may quote another's."""
    # 503 says that something is wrong, unless it says for how long.
    if status in _BUSY or (status == 503 and retry_after):
        raise UpstreamError("busy", f"HTTP {status}", after_s=_seconds(retry_after))
    if status == _FORBIDDEN:
        raise UpstreamError("forbidden", f"HTTP {status}")
    if status == NOT_IMPLEMENTED and body.lstrip()[:1] == b"{":
        # An engine says so in JSON; a program that took its port knows no POST.
        return status
    if status == _FAULT and _UNREAD.search(body, 0, _BEGINNING):
        return _MISTAKE
    if status >= 500 or status < 400 or status in _MISCONFIGURED:
        ours = status < 500
        raise UpstreamError(
            "status", f"HTTP {status}", said=said(status, body, key, ours=ours or several), ours=ours
        )
    return status


def _seconds(after: bytes) -> float | None:
    """Seconds of a `Retry-After`, which is a number of seconds or a date; None where it is neither, or a date
    gone by.
    """
    if after.isdigit():
        return float(after)
    try:
        until = parsedate_to_datetime(after.decode("ascii"))
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    left_s = (until - datetime.now(UTC)).total_seconds()
    return left_s if left_s > 0 else None
