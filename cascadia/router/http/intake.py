"""Intake of what a client sends, in turns of the event loop, so that none has more than its part."""

from typing import TYPE_CHECKING

from cascadia.router.http.parser import RequestParser

if TYPE_CHECKING:
    from cascadia.router.http.connection import ClientConnection

SLICE_BYTES = 2048
"""Fed to the parser at once where more came: at most so much is read beyond what a turn is for."""
WORK_A_TURN = 1024
"""Parts of bodies, each of some microseconds, that one connection is read for in a turn of the event loop."""


class Intake:
    """Intake of one connection. `backlog` is what has come and was not taken yet."""

    __slots__ = ("_client", "_parser", "backlog")

    def __init__(self, client: "ClientConnection", parser: RequestParser) -> None:
        self._client = client
        self._parser = parser
        self.backlog = b""

    def add(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES or self.backlog:
            waits = bool(self.backlog)
            self.backlog += data
            if not waits:
                self._go_on()
        else:
            self._take(data)

    def forget(self) -> None:
        """The connection is gone."""
        self.backlog = b""
        del self._client

    def _go_on(self) -> None:
        """Takes of what came as much as one turn of the loop is for: bytes cost little, requests and chunks much."""
        parser = self._parser
        parser.work = 0
        data, at = memoryview(self.backlog), 0
        while at < len(data) and parser.work < WORK_A_TURN and self._reads:
            # A body of known length costs one copy in one piece; in slices of 2 KiB each would be a part to
            # join.
            size = max(SLICE_BYTES, parser.slice_bytes)
            self._take(bytes(data[at : at + size]))
            at += size
        if parser.deaf:
            self.backlog = b""
            return
        self.backlog = bytes(data[at:]) if self._reads else b""
        self._client.hold_reading()
        if self.backlog:
            self._client.loop.call_soon(self._go_on)

    @property
    def _reads(self) -> bool:
        return not self._parser.deaf and self._parser.refusal is None

    def _take(self, data: bytes) -> None:
        parser = self._parser
        if parser.deaf or parser.refusal is not None:
            return
        parser.feed(data)
        if parser.ready or parser.refusal is not None:
            self._client.pump()
        elif parser.coming is not None and self._client.running is None:
            self._client.invite()
