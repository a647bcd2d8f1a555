"""Straight to a stage: the engine's answer as it is."""

import asyncio

from cascadia.router.answers import usage_of_reply
from cascadia.router.exchange import JSON, Exchange, Headers
from cascadia.router.records import Record
from cascadia.router.relay import relay
from cascadia.router.replica import Call
from cascadia.router.requests import APIS, Fields, rewritten, tokens_of
from cascadia.router.stage import Stage
from cascadia.router.steps import begun


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
    if stage.settings.model != fields.model or fields.has_own:
        body = rewritten(body, stage.settings.model, {})
    deadline_s = exchange.started_s + total_s
    if fields.deadline_ms:
        deadline_s = exchange.started_s + min(total_s, fields.deadline_ms / 1000.0)
    tokens = tokens_of(body, fields)
    step = begun(stage.name)
    record.steps.append(step)
    forwarded = exchange.forwarded if record.trace is None else record.trace.forwarded(step)
    call = Call(path.encode("ascii"), body, forwarded, tokens, prefix, deadline_s, step)
    stage.metrics.requests.inc()
    headers: Headers = [stage.header]
    record.entry["stage"] = stage.name
    if fields.stream:
        live = await stage.opened(call)
        if live.reply is not None:
            live.close(True)
            step.ended("refused")
            await exchange.refusal(live.reply.status, live.reply.body, headers)
            return
        step.first_at_s = asyncio.get_running_loop().time()
        stage.metrics.ttft.observe(step.first_at_s - step.started_at_s)
        await relay(exchange, APIS[path], stage, live, headers, None, step)
        return
    reply = await stage.buffered(call, usage_of_reply)
    step.ended("accepted" if reply.found is not None else "refused")
    if reply.found is not None:
        stage.metrics.input_tokens.inc(reply.found.input_tokens)
        stage.metrics.output_tokens.inc(reply.found.output_tokens)
        step.used(*reply.found)
        stage.metrics.seconds.observe(step.seconds)
        await exchange.whole(200, [JSON, *headers], reply.body)
        return
    await exchange.refusal(reply.status, reply.body, headers)
