"""The hot path: a POST of the OpenAI API, to the cascade or straight to a stage, and what is noted of it."""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from cascadia.router.asks import ask_of
from cascadia.router.cascade import Cascade
from cascadia.router.cascaded import cascaded
from cascadia.router.departures import Departures
from cascadia.router.exchange import Exchange, Receive, Scope, Send
from cascadia.router.failures import ApiError, StageFailed
from cascadia.router.journal import Journal
from cascadia.router.metrics import Metrics
from cascadia.router.records import Observer, Record
from cascadia.router.requests import APIS, CASCADED, prefix_of, read_fields
from cascadia.router.settings import RouterSettings
from cascadia.router.stage import Stage
from cascadia.router.straight import straight
from cascadia.router.tracing import Tracing

CLIENT_LEFT = 499
"""As nginx logs a request whose client did not wait."""


class Service:
    """`__call__` serves one request of a path in `APIS`."""

    def __init__(
        self,
        settings: RouterSettings,
        stages: list[Stage],
        cascade: Cascade,
        metrics: Metrics,
        journal: Journal,
        tracing: Tracing | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.stages = {stage.name: stage for stage in stages}
        self.order = [stage.name for stage in stages]
        self.cascade = cascade
        self.metrics = metrics
        self.journal = journal
        self.tracing = tracing
        self.observers = observers
        self._prefixes = any(stage.settings.balancing == "prefix" for stage in stages)
        self._next_id = _ids()
        self._departures = Departures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._next_id)
        entry: dict[str, Any] = {"api": APIS[scope["path"]], "model": "other"}
        record = Record(entry, exchange.started_s)
        self.metrics.running += 1
        try:
            await self._serve(exchange, scope["path"], record)
        except ApiError as error:
            entry["error"] = error.code
            await exchange.error(error)
        except StageFailed as error:
            entry["error"] = error.kind
            await exchange.error(error.api_error())
        except asyncio.CancelledError:
            if not exchange.left:
                raise
            # The client's leaving is no failure of ours; the cancellation has done its work.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            exchange.status = CLIENT_LEFT
        except (
            Exception
        ):  # the boundary: a fault of ours becomes OpenAI's error, and is told in full in the log
            logging.getLogger(__name__).exception("internal error")
            entry["error"] = "internal"
            await exchange.error(ApiError(500, "internal_error", "The router failed; its log says how."))
        finally:
            self.metrics.running -= 1
            exchange.close()
            self._record(exchange, record)

    async def _serve(self, exchange: Exchange, path: str, record: Record) -> None:
        entry = record.entry
        if self.tracing is not None:
            record.trace = self.tracing.begin(exchange.traceparent, exchange.forwarded)
        record.body = body = await exchange.body(self.limits.max_body_bytes)
        record.fields = fields = read_fields(body)
        exchange.cancel_on_leaving(asyncio.current_task())
        self._departures.add(exchange)
        prefix = prefix_of(fields) if self._prefixes else None
        stage = self.stages.get(fields.model)
        if stage is not None:
            entry["model"] = stage.name
            total_s = self.limits.total_s
            await straight(exchange, path, body, fields, stage, record, total_s=total_s, prefix=prefix)
        elif fields.model == self.settings.cascade and APIS[path] not in CASCADED:
            message = f"{path} goes straight to a stage; name one of {', '.join(self.order)}."
            raise ApiError(400, "not_cascaded", message, param="model")
        elif fields.model == self.settings.cascade:
            entry["model"] = fields.model
            ask = ask_of(exchange, path, body, fields, self.settings, prefix=prefix, record=record)
            record.ask = ask
            await cascaded(exchange, ask, self.cascade, entry, heartbeat_s=self.limits.heartbeat_s)
        else:
            known = ", ".join([self.settings.cascade, *self.order])
            message = f"The model {fields.model[:100]!r} is not served here; there are {known}."
            raise ApiError(404, "model_not_found", message, param="model")

    def _record(self, exchange: Exchange, record: Record) -> None:
        entry = record.entry
        record.close(exchange.status, exchange.first_at_s, asyncio.get_running_loop().time())
        entry["request_id"] = exchange.request_id.decode("ascii")
        self.metrics.done(entry["model"], exchange.status, record.seconds, record.ttft_s)
        if record.ask is not None:
            self._account(record)
        for observe in self.observers:
            observe(record)
        self.journal.line(entry)

    def _account(self, record: Record) -> None:
        """What the cascade's answer cost, and what a single model would have read and written for it."""
        for step in record.steps:
            self.stages[step.stage].metrics.cascade_tokens.inc(step.tokens)
        if record.answered is not None:
            self.metrics.answer_tokens.inc(record.answered.tokens)
        if record.entry.get("stopped") is not None:
            self.metrics.stopped.labels(record.entry["stopped"]).inc()


def _ids() -> Callable[[], bytes]:
    """Unique among processes by a random start, within one by counting: a uuid costs more than all else here."""
    start = os.urandom(8).hex().encode("ascii") + b"-"
    numbers = itertools.count(1)
    return lambda: start + b"%x" % next(numbers)
