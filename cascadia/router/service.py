"""The hot path: a POST of the OpenAI API, to the cascade or straight to a stage, and what is noted of it."""

import asyncio
from collections.abc import Callable
from typing import Any

from cascadia.router.access import Access
from cascadia.router.asks import ask_of
from cascadia.router.cascade import Cascade
from cascadia.router.cascaded import cascaded
from cascadia.router.exchange import Exchange
from cascadia.router.failures import ApiError, StageFailed
from cascadia.router.faults import tell
from cascadia.router.journal import Journal
from cascadia.router.metrics import Metrics
from cascadia.router.records import Record
from cascadia.router.requests import APIS, BYTES_PER_TOKEN, CASCADED, prefix_of, read_fields, tokens_of
from cascadia.router.settings import RouterSettings
from cascadia.router.stage import Stage
from cascadia.router.straight import straight
from cascadia.router.watchers import Watchers

CLIENT_LEFT = 499
"""As nginx logs a request whose client did not wait."""


class Service:
    """`begin` serves one request of a path in `APIS`."""

    def __init__(
        self,
        settings: RouterSettings,
        stages: list[Stage],
        cascade: Cascade,
        metrics: Metrics,
        journal: Journal,
        access: Access | None = None,
        watchers: Watchers | None = None,
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.stages = {stage.name: stage for stage in stages}
        self.order = [stage.name for stage in stages]
        self.cascade = cascade
        self.metrics = metrics
        self.journal = journal
        self.access = access
        self.tracing = watchers.tracing if watchers is not None else None
        self.observers = watchers.observers if watchers is not None else []
        self.running = 0
        self.on_idle: Callable[[], object] | None = None
        """Called each time that none of its requests is left."""
        self._prefixes = any(stage.settings.balancing == "prefix" for stage in stages)

    def begin(self, exchange: Exchange) -> None:
        """Serves a request; its client's leaving cancels it, and with it whatever an engine does for it."""
        task = asyncio.get_running_loop().create_task(self._served(exchange))
        exchange.on_leaving = task.cancel

    def turns_away(self, exchange: Exchange) -> ApiError | None:
        """Why a request is refused by its head alone; None where it may come."""
        try:
            if self.access is not None:
                self.access.caller(exchange.authorization, "inference")
        except ApiError as error:
            return error
        return None

    async def _served(self, exchange: Exchange) -> None:
        entry: dict[str, Any] = {"api": APIS[exchange.path], "model": "other"}
        record = Record(entry, exchange.started_s, body=exchange.body)
        self.metrics.running += 1
        self.running += 1
        try:
            await self._serve(exchange, exchange.path, record)
        except ApiError as error:
            entry["error"] = error.code
            exchange.error(error)
        except StageFailed as error:
            entry["error"] = error.kind
            exchange.error(error.api_error())
        except asyncio.CancelledError:
            if not exchange.left:
                raise
            # The client's leaving is no failure of ours; the cancellation has done its work.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            exchange.status = CLIENT_LEFT
        except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours becomes OpenAI's error)
            tell("internal error", error)
            entry["error"] = "internal"
            exchange.error(ApiError(500, "internal_error", "The router failed; its log says how."))
        finally:
            self.metrics.running -= 1
            exchange.close()
            if exchange.hold is not None:
                exchange.hold.release(left=exchange.left)
            self._record(exchange, record)
            self.running -= 1
            if not self.running and self.on_idle is not None:
                self.on_idle()

    async def _serve(self, exchange: Exchange, path: str, record: Record) -> None:
        body, entry = exchange.body, record.entry
        if self.tracing is not None:
            record.trace = self.tracing.begin(exchange.traceparent, exchange.forwarded)
        access, account = self.access, None
        if access is not None:
            account = access.caller(exchange.authorization, "inference")
            entry["key"] = account.key.name
        record.fields = fields = read_fields(body)
        if access is not None and account is not None:
            tokens, prompt_tokens = tokens_of(body, fields), len(body) // BYTES_PER_TOKEN
            if access.shared is None:
                exchange.hold = access.admit_here(exchange, account, fields.model, tokens, prompt_tokens)
            else:
                exchange.hold = await access.admit(exchange, account, fields.model, tokens, prompt_tokens)
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
