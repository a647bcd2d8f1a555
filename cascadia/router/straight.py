"""Straight to a stage: the engine's answer as it is."""

import asyncio

from cascadia.router.answers import usage_of_reply
from cascadia.router.asks import urgency_of
from cascadia.router.exchange import JSON, Exchange
from cascadia.router.records import Record
from cascadia.router.relay import relay
from cascadia.router.replica import Call
from cascadia.router.requests import APIS, Fields, rewritten, tokens_of
from cascadia.router.stage import Stage
from cascadia.router.steps import begun
from cascadia.router.wire import Headers


async def straight(
    exchange: Exchange,
    path: str,
    body: bytes,
    fields: Fields,
    stage: Stage,
    record: Record,
    *,
    total_s: float,
    prefix: int | None,
) -> None:
    """Serves a request that names its stage, within `total_s`. `prefix` as of `Call`."""
    urgency = urgency_of(exchange, fields, total_s)
    changes = stage.told(urgency.priority)
    if stage.settings.model != fields.model or fields.has_own or changes:
        body = rewritten(body, stage.settings.model, changes)
    tokens = tokens_of(body, fields)
    step = begun(stage.name)
    record.steps.append(step)
    forwarded = exchange.forwarded if record.trace is None else record.trace.forwarded(step)
    deadline_s, priority = urgency
    call = Call(path.encode("ascii"), body, forwarded, tokens, prefix, deadline_s, priority, step)
    stage.metrics.requests.inc()
    headers: Headers = [stage.header]
    record.entry["stage"] = stage.name
    # An embedding is never a stream, whatever the client says.
    if fields.stream and APIS[path] != "embeddings":
        live = await stage.opened(call)
        if live.reply is not None:
            live.close(True)
            step.ended("refused")
            exchange.refusal(live.reply.status, live.reply.body, headers)
            return
        step.first_at_s = asyncio.get_running_loop().time()
        stage.metrics.ttft.observe(step.first_at_s - step.started_at_s)
        await relay(exchange, APIS[path], stage, live, headers, None, step)
        return
    reply = await stage.buffered(call, usage_of_reply)
    step.ended("accepted" if reply.found is not None else "refused")
    if reply.found is not None:
        if exchange.hold is not None:
            exchange.hold.spent = reply.found.input_tokens + reply.found.output_tokens
        stage.metrics.input_tokens.inc(reply.found.input_tokens)
        stage.metrics.output_tokens.inc(reply.found.output_tokens)
        step.used(*reply.found)
        stage.metrics.seconds.observe(step.seconds)
        exchange.whole(200, [JSON, *headers], reply.body)
        return
    exchange.refusal(reply.status, reply.body, headers)
