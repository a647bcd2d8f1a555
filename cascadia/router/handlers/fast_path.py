"""The plain case: a whole answer straight from a stage, at whose first try nobody has to wait.

Most requests are so, and a task for each, with the coroutines in it, would cost as much as all else that is done for
them. So each step is a callback of the one before. What turns out not to be plain goes on as a task where it stands.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec import Struct

from cascadia.router.cascade.records import Record
from cascadia.router.handlers.direct import answer, straight
from cascadia.router.http.exchange import CLIENT_LEFT, Exchange
from cascadia.router.openai.answers import tokens_of_reply, usage_of_reply
from cascadia.router.openai.requests import TOKENIZERS, Fields
from cascadia.router.replicas.attempts import Begun
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.upstream.connection import Connection


class Serves(Protocol):
    """Whoever the request is of: told of its end, however it ended, or goes on with it as a task."""

    def close(self, exchange: Exchange, record: Record) -> None: ...

    def fault(self, exchange: Exchange, record: Record, error: Exception) -> None: ...

    def run(self, exchange: Exchange, record: Record, work: Coroutine[Any, Any, None]) -> None: ...


class Plain(Struct, eq=False):
    """`begin`, and then either `ended` or `left`, once."""

    service: Serves
    exchange: Exchange
    fields: Fields
    stage: Stage
    call: Call
    record: Record
    _begun: Begun | None = None

    def begin(self) -> Coroutine[Any, Any, None] | None:
        """Begins the request and returns None where it is under way; what is left to do where it is not plain
        from the start.
        """
        begun = self.stage.begin_at_once(self.call, self.ended)
        if begun is None or begun.connection is None:
            return straight(self.exchange, self.fields, self.stage, self.call, begun)
        self._begun = begun
        self.exchange.on_leaving = self.left
        return None

    def ended(self, _: Connection) -> None:
        """The engine's answer is here, or will not come."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            read = tokens_of_reply if self.call.path in TOKENIZERS else usage_of_reply
            found = self.stage.ended_well(begun, read)
            if found is None:
                self._go_on(begun)
                return
            usage, body = found
            answer(self.exchange, self.stage, self.call, body, usage)
        except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours becomes OpenAI's error)
            self.stage.drop(begun)
            self.service.fault(self.exchange, self.record, error)
        self.service.close(self.exchange, self.record)

    def left(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            self.stage.drop(begun)
            self.exchange.status = CLIENT_LEFT
            self.service.close(self.exchange, self.record)

    def _go_on(self, begun: Begun) -> None:
        first: Begun | None = begun
        # Its engine had closed it before: a fresh connection to it is no further try.
        if begun.stale:
            self.stage.drop(begun)
            first = None
        work = straight(self.exchange, self.fields, self.stage, self.call, first)
        self.service.run(self.exchange, self.record, work)
