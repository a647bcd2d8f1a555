"""The hot path: a POST of the OpenAI API, to the cascade or straight to a stage, and what is noted of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import Any, Protocol

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.access.access import Access
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.one_pass import OnePassCascade
from cascadia.router.cascade.records import Record
from cascadia.router.cascade.request_limits import ask_of, urgency_of
from cascadia.router.handlers.batched import Batched
from cascadia.router.handlers.deliver import cascaded
from cascadia.router.handlers.direct import call_of, straight
from cascadia.router.handlers.fast_path import Plain
from cascadia.router.handlers.one_pass import in_one_pass
from cascadia.router.http.exchange import CLIENT_LEFT, Admitted, Exchange
from cascadia.router.observers.observers import Observers
from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.openai.errors import ApiError, StageFailed
from cascadia.router.openai.requests import (
    Fields,
    prefix_of,
    read_fields,
    tokens_of,
)
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.replicas.batcher import Batcher, Lane
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import GearSettings, RouterSettings
from cascadia.router.telemetry.internal_errors import tell
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.request_log import Journal

Work = Coroutine[Any, Any, None]
_OF_ONE = {"embeddings": "Embeddings", "score": "Scores", "pooling": "Vectors", "tokens": "Tokens"}
"""What each API tells that is of one model, and means nothing to another."""


class ChoosesGear(Protocol):
    """Chooses each request's gear, but none lighter than `lightest`."""

    def arrival(self, lightest: int | None) -> GearSettings: ...


class Service:
    """`begin` serves one request of the OpenAI API."""

    def __init__(
        self,
        settings: RouterSettings,
        stages: list[Stage],
        cascade: Cascade,
        *,
        metrics: Metrics,
        journal: Journal,
        held: HeldBytes,
        access: Access | None = None,
        observers: Observers | None = None,
        earlier: Sequence[str] = (),
        gears: ChoosesGear | None = None,
        batchers: Mapping[str, Batcher] = MappingProxyType({}),
    ) -> None:
        self.settings = settings
        lanes = {name: (each, lane) for each in batchers.values() for name, lane in each.lanes.items()}
        self.lanes = lanes | _of_the_cascade(settings, lanes)
        """Lanes of groups and their stages by name, where requests are served in batches."""
        self.gears = gears
        self.limits = settings.limits
        self.stages = {stage.name: stage for stage in stages}
        self.prices = {s.name: s.settings.price for s in stages if s.settings.price is not None}
        self.order = [stage.name for stage in stages]
        self.aliases = aliases(settings, earlier)
        self.cascade = cascade
        self.metrics = metrics
        self.journal = journal
        self.held = held
        self.one_pass = (
            OnePassCascade(stages, cascade.scoring, lanes) if settings.task != "generate" else None
        )
        self.access = access
        self.tracing = observers.tracing if observers is not None else None
        self.samples = observers.samples if observers is not None else None
        self.observers = observers.observers if observers is not None else []
        self.running = 0
        self.on_idle: Callable[[], object] | None = None
        """Called each time that none of its requests is left."""
        self._prefixes = any(stage.settings.balancing in ("prefix", "matching") for stage in stages)

    def turns_away(self, exchange: Exchange) -> ApiError | None:
        """Refusal of a request by its head alone; None where it may come."""
        try:
            if self.access is not None:
                self.access.caller_of(exchange.head)
        except ApiError as error:
            return error
        return None

    def begin(self, exchange: Exchange) -> None:
        """Serves a request; its client's leaving cancels it, and with it whatever an engine does for it."""
        entry: dict[str, Any] = {"api": exchange.head.api, "model": "other"}
        record = Record(entry, exchange.started_s, body=exchange.body)
        self.metrics.running += 1
        self.running += 1
        try:
            work = self._work(exchange, record)
        except ApiError as error:
            entry["error"] = error.code
            exchange.error(error)
            self.close(exchange, record)
            return
        except StageFailed as error:
            entry["error"] = error.kind
            exchange.error(error.api_error())
            self.close(exchange, record)
            return
        except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours becomes OpenAI's error)
            self.fault(exchange, record, error)
            self.close(exchange, record)
            return
        if self.samples is not None and exchange.head.api != "tokens":
            self.samples.came()
        if work is not None:
            self.run(exchange, record, work)

    def run(self, exchange: Exchange, record: Record, work: Work) -> None:
        """Serves with `work` as a task."""
        exchange.on_leaving = None
        asyncio.get_running_loop().create_task(self._served(exchange, record, work))

    def close(self, exchange: Exchange, record: Record) -> None:
        """However it ended."""
        self.metrics.running -= 1
        try:
            exchange.close()
            try:
                record.close(exchange.status, exchange.first_at_s, monotonic())
            finally:
                if exchange.reservation is not None:
                    exchange.reservation.release(left=exchange.left, took=record.all_tokens)
                if record.ask is not None:
                    record.ask.holding.release()
            self._record(exchange, record)
        except Exception as error:  # noqa: BLE001 (a plan would wait for ever for a request that never ends)
            tell("a request's end is not noted", error)
        self.running -= 1
        if not self.running and self.on_idle is not None:
            self.on_idle()

    def fault(self, exchange: Exchange, record: Record, error: Exception) -> None:
        """A fault of ours becomes OpenAI's error."""
        tell("internal error", error)
        record.entry["error"] = "internal"
        exchange.error(ApiError(500, "internal_error", "The router failed; its log says how."))

    async def _served(self, exchange: Exchange, record: Record, work: Work) -> None:
        task = asyncio.current_task()
        assert task is not None
        # Not before the task has begun: one that is cancelled earlier would end without an end of its request.
        exchange.on_leaving = task.cancel
        if exchange.left:
            task.cancel()
        try:
            await work
        except ApiError as error:
            record.entry["error"] = error.code
            exchange.error(error)
        except StageFailed as error:
            record.entry["error"] = error.kind
            exchange.error(error.api_error())
        except asyncio.CancelledError:
            if not exchange.left:
                raise
            # The client's leaving is no failure of ours; the cancellation has done its work.
            task.uncancel()
            exchange.status = CLIENT_LEFT
        except Exception as error:  # noqa: BLE001 (the boundary: a fault of ours becomes OpenAI's error)
            self.fault(exchange, record, error)
        finally:
            self.close(exchange, record)

    def _work(self, exchange: Exchange, record: Record) -> Work | None:
        """Work that is left to do for a request; None where it is under way."""
        body, access = exchange.body, self.access
        if self.tracing is not None:
            record.trace = self.tracing.begin(exchange.head.traceparent, exchange.forwarded)
        if access is None:
            record.fields = fields = read_fields(body, exchange.head.api)
            record.tokens = tokens_of(body, fields, exchange.head.api)
        else:
            account = access.caller_of(exchange.head)
            record.entry["key"] = account.key.name
            record.fields = fields = read_fields(body, exchange.head.api)
            record.tokens = tokens = tokens_of(body, fields, exchange.head.api)
            prompt_tokens = prompt_tokens_of(body)
            if access.shared is not None:
                admitted = access.admit(exchange, account, fields.model, tokens, prompt_tokens)
                return self._routed_when(admitted, exchange, fields, record)
            exchange.reservation = access.admit_here(exchange, account, fields.model, tokens, prompt_tokens)
        if len(body) > LONG_BYTES:
            # This turn of the event loop has read through it.
            return self._routed_later(exchange, fields, record)
        return self._routed(exchange, fields, record)

    async def _routed_later(self, exchange: Exchange, fields: Fields, record: Record) -> None:
        work = self._routed(exchange, fields, record, as_task=True)
        assert work is not None
        await work

    async def _routed_when(
        self, admitted: Awaitable[Admitted], exchange: Exchange, fields: Fields, record: Record
    ) -> None:
        exchange.reservation = await admitted
        await self._routed_later(exchange, fields, record)

    def _routed(
        self, exchange: Exchange, fields: Fields, record: Record, *, as_task: bool = False
    ) -> Work | None:
        """Work as of `_work`; `as_task`: there is a task for it already, and always something left to do."""
        batched = self.lanes and exchange.head.api == self.settings.task
        if batched and (found := self.lanes.get(fields.model)):
            return self._batched(exchange, fields, record, *found, as_task=as_task)
        prefix = prefix_of(fields) if self._prefixes else None
        stage = self.stages.get(fields.model)
        if stage is None and (alias := self.aliases.get(fields.model)) is not None:
            stage = self.stages[alias]
            exchange.more += b"x-cascadia-alias: " + stage.header[1] + b"\r\n"
        if stage is not None:
            record.entry["model"] = record.entry["stage"] = stage.name
            call = call_of(exchange, fields, stage, record, self.limits.total_s, prefix)
            stage.metrics.requests.value += 1.0
            if fields.stream or as_task:
                return straight(exchange, fields, stage, call)
            return Plain(self, exchange, fields, stage, call, record).begin()
        if fields.model == self.settings.cascade:
            if (why := self._not_cascaded(exchange)) is not None:
                raise ApiError(400, "not_cascaded", why, param="model")
            record.entry["model"] = fields.model
            gear = self._gear(exchange, record)
            ask = ask_of(exchange, fields, self.settings, self.held, prefix=prefix, record=record, gear=gear)
            record.ask = ask
            if self.one_pass is not None:
                return in_one_pass(exchange, ask, self.one_pass, record.entry, self.cascade.usd)
            return cascaded(exchange, ask, self.cascade, record.entry, heartbeat_s=self.limits.heartbeat_s)
        known = ", ".join([self.settings.cascade, *self.order])
        message = f"The model {fields.model[:100]!r} is not served here; there are {known}."
        raise ApiError(404, "model_not_found", message, param="model")

    def _batched(
        self,
        exchange: Exchange,
        fields: Fields,
        record: Record,
        batcher: Batcher,
        lane: Lane,
        *,
        as_task: bool,
    ) -> Work | None:
        """Work as of `_routed`, of a request to a group or one of its stages."""
        record.entry["model"] = lane.name
        items = batcher.wire.members(exchange.body, fields)
        if not items:
            raise ApiError(
                400, "not_batched", "Give `input`: messages are not served in batches.", param="input"
            )
        total_s = self.limits.total_s
        urgency = urgency_of(exchange, fields, total_s)
        given = urgency.deadline_s < exchange.started_s + total_s
        batched = Batched(self, exchange, record, batcher, lane)
        if as_task:
            return batched.begun(items, urgency.deadline_s, given=given, truncate=fields.truncate)
        batched.begin(items, urgency.deadline_s, given=given, truncate=fields.truncate)
        return None

    def _not_cascaded(self, exchange: Exchange) -> str | None:
        """Reason why the cascade does not answer at this path; None where it does."""
        path, task, api = exchange.head.path.decode(), self.settings.task, exchange.head.api
        if (what := _OF_ONE.get(api)) is not None:
            stages = ", ".join(self.order)
            return f"{what} of two models cannot be compared, so they do not cascade; name one of {stages}."
        if (api if api in ("classify", "rerank") else "generate") == task:
            return None
        paths = "/v1/chat/completions" if task == "generate" else f"/v1/{task}"
        return f"The stages here do not serve {path}: their task is {task}, at {paths}."

    def _gear(self, exchange: Exchange, record: Record) -> GearSettings | None:
        """Gear of a request that arrives now; None where one setting serves any load."""
        if self.gears is None:
            return None
        lightest = None if exchange.reservation is None else exchange.reservation.max_gear
        gear = self.gears.arrival(lightest)
        record.entry["gear"] = gear.number
        return gear

    def _record(self, exchange: Exchange, record: Record) -> None:
        entry = record.entry
        entry["request_id"] = exchange.request_id.decode("ascii")
        seconds, first_at_s = record.ended_at_s - record.started_at_s, record.first_at_s
        ttft_s = None if first_at_s is None else first_at_s - record.started_at_s
        self.metrics.done(entry["model"], exchange.status, seconds, ttft_s)
        if record.ask is not None:
            self._account(record)
        if exchange.reservation is not None and self.prices:
            self._charge(exchange.reservation, record)
        for observe in self.observers:
            observe(record)
        self.journal.line(entry)

    def _charge(self, reservation: Admitted, record: Record) -> None:
        """Charges the key what the request's engines read and wrote."""
        for step in record.steps:
            if (price := self.prices.get(step.stage)) is not None and step.all_tokens:
                reservation.charge(step.stage, step.usd(*price))

    def _account(self, record: Record) -> None:
        """Counts what the cascade's answer cost, and what a single model would have read and written for it."""
        for step in record.steps:
            self.stages[step.stage].metrics.cascade_tokens.inc(step.all_tokens)
        if record.answered is not None:
            self.metrics.answer_tokens.inc(record.answered.tokens)
        prices = self.cascade.prices
        for step in record.steps:
            if (price := prices.get(step.stage)) is not None:
                self.stages[step.stage].metrics.cascade_usd.inc(step.usd(*price))
        if (answered := record.answered) is not None and (price := prices.get(self.order[-1])) is not None:
            read, wrote = price
            self.metrics.alone_usd.inc((answered.input_tokens * read + answered.output_tokens * wrote) / 1e6)
        if record.entry.get("stopped") is not None:
            self.metrics.stopped.labels(record.entry["stopped"]).inc()


def aliases(settings: RouterSettings, earlier: Sequence[str] = ()) -> dict[str, str]:
    """Substitute for each stage without engines, by name: the next larger stage that has some, else the
    largest.

    Such names are of the plan's stages, and of those (`earlier`, from small to large) that were served before: clients
    go on to use what they were told once.
    """
    deployed = {stage.name for stage in settings.stages}
    found: dict[str, str] = {}
    for names in (earlier, settings.names):
        larger = settings.stages[-1].name
        for name in reversed(names):
            if name in deployed:
                larger = name
            elif name != settings.cascade:
                found[name] = larger
    return found


def _of_the_cascade(
    settings: RouterSettings, lanes: Mapping[str, tuple[Batcher, Lane]]
) -> dict[str, tuple[Batcher, Lane]]:
    """The lane by which the cascade's own name is served: where no stage has a threshold, of which the first would
    answer everything, the policies of a group that has all stages decide."""
    groups = {stage.group for stage in settings.stages}
    if len(groups) > 1 or any(stage.threshold > 0 for stage in settings.stages[:-1]):
        return {}
    found = next((group for group in settings.groups if group.name in groups and group.policies), None)
    return {} if found is None else {settings.cascade: lanes[found.name]}
