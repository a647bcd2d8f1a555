"""The hot path: POST /v1/chat/completions and /v1/completions, to the cascade or straight to a stage."""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from cascadia.clients.upstream_errors import UpstreamError
from cascadia.router.answers import DONE, Usage, usage_of_reply
from cascadia.router.cascade import Ask, Cascade, Decision
from cascadia.router.departures import Departures
from cascadia.router.exchange import JSON, Exchange, Headers, Receive, Scope, Send
from cascadia.router.failures import ApiError, StageFailed, failed
from cascadia.router.journal import Journal
from cascadia.router.metrics import Metrics
from cascadia.router.release import Noting, released_events, with_note, without_logprobs
from cascadia.router.replica import Call
from cascadia.router.requests import CASCADED, Api, Fields, prefix_of, read_fields, rewritten
from cascadia.router.settings import RouterSettings
from cascadia.router.stage import Live, Stage

APIS: dict[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/responses": "responses",
}
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
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.stages = {stage.name: stage for stage in stages}
        self.order = [stage.name for stage in stages]
        self.cascade = cascade
        self.metrics = metrics
        self.journal = journal
        self._prefixes = any(stage.settings.balancing == "prefix" for stage in stages)
        self._next_id = _ids()
        self._departures = Departures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._next_id)
        entry: dict[str, Any] = {"api": APIS[scope["path"]], "model": "other"}
        self.metrics.running += 1
        try:
            await self._serve(exchange, scope["path"], entry)
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
            self._record(exchange, entry)

    async def _serve(self, exchange: Exchange, path: str, entry: dict[str, Any]) -> None:
        body = await exchange.body(self.limits.max_body_bytes)
        fields = read_fields(body)
        exchange.cancel_on_leaving(asyncio.current_task())
        self._departures.add(exchange)
        stage = self.stages.get(fields.model)
        if stage is not None:
            entry["model"] = stage.name
            await self._straight(exchange, path, body, fields, stage, entry)
        elif fields.model == self.settings.cascade and APIS[path] not in CASCADED:
            message = f"{path} goes straight to a stage; name one of {', '.join(self.order)}."
            raise ApiError(400, "not_cascaded", message, param="model")
        elif fields.model == self.settings.cascade:
            entry["model"] = fields.model
            await self._cascaded(exchange, path, body, fields, entry)
        else:
            known = ", ".join([self.settings.cascade, *self.order])
            message = f"The model {fields.model[:100]!r} is not served here; there are {known}."
            raise ApiError(404, "model_not_found", message, param="model")

    # Straight to a stage: the engine's answer as it is.

    async def _straight(
        self, exchange: Exchange, path: str, body: bytes, fields: Fields, stage: Stage, entry: dict[str, Any]
    ) -> None:
        if stage.settings.model != fields.model or fields.has_own:
            body = rewritten(body, stage.settings.model, {})
        deadline_s = exchange.started_s + self.limits.total_s
        if fields.deadline_ms:
            deadline_s = exchange.started_s + min(self.limits.total_s, fields.deadline_ms / 1000.0)
        call = self._call(exchange, path, body, fields, deadline_s)
        stage.metrics.requests.inc()
        headers: Headers = [stage.header]
        entry["stage"] = stage.name
        if fields.stream:
            live = await stage.opened(call)
            stage.metrics.ttft.observe(asyncio.get_running_loop().time() - exchange.started_s)
            if live.reply is not None:
                live.close(True)
                await exchange.refusal(live.reply.status, live.reply.body, headers)
                return
            await self._relay(exchange, APIS[path], stage, live, headers, None)
            return
        reply = await stage.buffered(call, usage_of_reply)
        if reply.found is not None:
            stage.metrics.input_tokens.inc(reply.found.input_tokens)
            stage.metrics.output_tokens.inc(reply.found.output_tokens)
            stage.metrics.seconds.observe(asyncio.get_running_loop().time() - exchange.started_s)
            await exchange.whole(200, [JSON, *headers], reply.body)
            return
        await exchange.refusal(reply.status, reply.body, headers)

    # The cascade.

    async def _cascaded(
        self, exchange: Exchange, path: str, body: bytes, fields: Fields, entry: dict[str, Any]
    ) -> None:
        ask = self._ask(exchange, path, body, fields)
        if fields.stream:
            exchange.beat_every(self.limits.heartbeat_s)
        decision = await self.cascade.decide(ask)
        entry["steps"] = [step._asdict() for step in decision.steps]
        stage = decision.stage
        if decision.refused is not None or stage is None:
            refused = decision.refused
            assert refused is not None
            await exchange.refusal(refused.status, refused.body, [])
            return
        held = decision.held
        score = held.score if held is not None else None
        entry |= {
            "stage": stage.name,
            "score": score,
            "attempts": decision.attempts,
            "stopped": decision.stopped,
        }
        headers = _headers(decision, stage, score)
        if decision.live is not None:
            asked_usage = b"include_usage" in fields.given("stream_options")

            def noted(usage: Usage) -> dict[str, Any]:
                stage.metrics.input_tokens.inc(usage.input_tokens)
                stage.metrics.output_tokens.inc(usage.output_tokens)
                decision.total = decision.total.plus(usage)
                return _note(decision, stage, score)

            noting = Noting(noted) if asked_usage else None
            await self._relay(exchange, APIS[path], stage, decision.live, headers, noting)
            return
        assert held is not None
        note = _note(decision, stage, score)
        asked_logprobs = fields.given("logprobs") not in (b"", b"false")
        if fields.stream:
            asked_usage = b"include_usage" in fields.given("stream_options")
            content = released_events(held.body, note, usage=asked_usage, logprobs=asked_logprobs)
            await exchange.begin_stream(headers)
            await exchange.part(content, more=False)
            return
        content = held.body
        if not asked_logprobs and any(choice.logprobs for choice in held.written.choices):
            content = without_logprobs(content)
        await exchange.whole(200, [JSON, *headers], with_note(content, note))

    def _ask(self, exchange: Exchange, path: str, body: bytes, fields: Fields) -> Ask:
        deadline_ms = _limit(exchange, b"deadline-ms", fields.deadline_ms)
        if deadline_ms is not None and not 0 < deadline_ms < float("inf"):
            raise ApiError(400, "invalid_value", "deadline_ms must be above 0.", param="deadline_ms")
        quality_min = _limit(exchange, b"quality-min", fields.quality_min)
        if quality_min is not None and not 0 <= quality_min <= 100:
            raise ApiError(400, "invalid_value", "quality_min must be 0 to 100.", param="quality_min")
        total_s = self.limits.total_s
        deadline_s = exchange.started_s + (
            min(total_s, deadline_ms / 1000.0) if deadline_ms is not None else total_s
        )
        first, last = self._bounds(
            _name(exchange, b"min-stage", fields.min_stage), _name(exchange, b"max-stage", fields.max_stage)
        )
        api: Api = APIS[path]
        return Ask(
            api=api,
            path=path.encode("ascii"),
            body=body,
            fields=fields,
            headers=exchange.forwarded,
            tokens=_tokens(body, fields),
            prefix=prefix_of(fields) if self._prefixes else None,
            deadline_s=deadline_s,
            first=first,
            last=last,
            quality_min=quality_min or 0.0,
        )

    def _bounds(self, min_stage: str | None, max_stage: str | None) -> tuple[int, int]:
        """Indices of the smallest and the largest stage that may be asked, among those that are deployed."""
        names = self.settings.names or tuple(self.order)
        for param, name in (("min_stage", min_stage), ("max_stage", max_stage)):
            if name is not None and name not in names:
                message = f"{param} names no stage; there are {', '.join(names)}."
                raise ApiError(400, "unknown_stage", message, param=param)
        smallest = names.index(min_stage) if min_stage is not None else 0
        largest = names.index(max_stage) if max_stage is not None else len(names) - 1
        within = [i for i, name in enumerate(self.order) if smallest <= names.index(name) <= largest]
        if not within:
            message = "No deployed stage lies between min_stage and max_stage."
            raise ApiError(400, "invalid_value", message, param="max_stage")
        return within[0], within[-1]

    def _call(self, exchange: Exchange, path: str, body: bytes, fields: Fields, deadline_s: float) -> Call:
        prefix = prefix_of(fields) if self._prefixes else None
        tokens = _tokens(body, fields)
        return Call(path.encode("ascii"), body, exchange.forwarded, tokens, prefix, deadline_s)

    async def _relay(
        self, exchange: Exchange, api: Api, stage: Stage, live: Live, headers: Headers, noting: Noting | None
    ) -> None:
        """An engine's stream, part by part. Breaks off with an error event where the engine does."""
        ends_done = api in CASCADED
        ok: bool | None = None
        try:
            await exchange.begin_stream(headers)
            data, tail = live.first, b""
            while data:
                out = noting.part(data) if noting else data
                if out:
                    await exchange.part(out)
                tail = (tail + data)[-32:]
                data = await live.some()
            # A response ends with an event of its own, which holds all of it.
            if ends_done and DONE not in tail:
                raise UpstreamError("unreadable", "a stream without its end")
            ok = True
            await exchange.part(noting.rest() if noting else b"", more=False)
        except UpstreamError as error:
            ok = False
            stage.metrics.upstream_error(error.kind)
            # A line that was cut must not run into the error's own.
            await exchange.part(b"\n\n")
            raise failed(stage.name, error) from None
        finally:
            live.close(ok)

    def _record(self, exchange: Exchange, entry: dict[str, Any]) -> None:
        seconds = asyncio.get_running_loop().time() - exchange.started_s
        self.metrics.done(entry["model"], exchange.status, seconds)
        entry["status"] = exchange.status
        entry["seconds"] = int(seconds * 1e6) / 1e6
        entry["request_id"] = exchange.request_id.decode("ascii")
        self.journal.line(entry)


def _tokens(body: bytes, fields: Fields) -> int:
    """An estimate of prompt and answer together; only its ratio to others' counts."""
    return len(body) // 4 + fields.output_tokens


def _note(decision: Decision, stage: Stage, score: float | None) -> dict[str, Any]:
    total = decision.total
    note: dict[str, Any] = {
        "stage": stage.name,
        "score": score,
        "attempts": decision.attempts,
        "usage": {
            "prompt_tokens": total.input_tokens,
            "completion_tokens": total.output_tokens,
            "total_tokens": total.input_tokens + total.output_tokens,
        },
    }
    if decision.stopped is not None:
        note["stopped"] = decision.stopped
    return note


def _headers(decision: Decision, stage: Stage, score: float | None) -> Headers:
    headers: Headers = [
        stage.header,
        (b"x-cascadia-attempts", str(decision.attempts).encode("ascii")),
    ]
    if score is not None:
        headers.append((b"x-cascadia-score", f"{score:.2f}".encode("ascii")))
    if decision.stopped is not None:
        headers.append((b"x-cascadia-stopped", decision.stopped.encode("ascii")))
    return headers


def _limit(exchange: Exchange, header: bytes, field: float | UnsetType | None) -> float | None:
    value = exchange.given.get(header)
    if value is None:
        return None if field is UNSET else field
    try:
        return float(value)
    except ValueError:
        name = header.decode()
        raise ApiError(
            400, "invalid_value", f"The header x-cascadia-{name} is no number.", param=name
        ) from None


def _name(exchange: Exchange, header: bytes, field: str | UnsetType | None) -> str | None:
    value = exchange.given.get(header)
    if value is None:
        return None if field is UNSET else field
    return value.decode("ascii", "replace")


def _ids() -> Callable[[], bytes]:
    """Unique among processes by a random start, within one by counting: a uuid costs more than all else here."""
    start = os.urandom(8).hex().encode("ascii") + b"-"
    numbers = itertools.count(1)
    return lambda: start + b"%x" % next(numbers)
