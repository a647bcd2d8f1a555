"""Straight to a stage: the engine's answer as it is."""

import asyncio
from typing import Any

from cascadia.router.answers import usage_of_reply
from cascadia.router.asks import urgency_of
from cascadia.router.exchange import JSON, Exchange
from cascadia.router.relay import relay
from cascadia.router.replica import Call
from cascadia.router.requests import APIS, Fields, rewritten, tokens_of
from cascadia.router.stage import Stage
from cascadia.router.wire import Headers


async def straight(
    exchange: Exchange,
    path: str,
    body: bytes,
    fields: Fields,
    stage: Stage,
    entry: dict[str, Any],
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
    call = Call(
        path.encode("ascii"), body, exchange.forwarded, tokens, prefix, urgency.deadline_s, urgency.priority
    )
    stage.metrics.requests.inc()
    headers: Headers = [stage.header]
    entry["stage"] = stage.name
    if fields.stream:
        live = await stage.opened(call)
        stage.metrics.ttft.observe(asyncio.get_running_loop().time() - exchange.started_s)
        if live.reply is not None:
            live.close(True)
            exchange.refusal(live.reply.status, live.reply.body, headers)
            return
        await relay(exchange, APIS[path], stage, live, headers, None)
        return
    reply = await stage.buffered(call, usage_of_reply)
    if reply.found is not None:
        if exchange.hold is not None:
            exchange.hold.spent = reply.found.input_tokens + reply.found.output_tokens
        stage.metrics.input_tokens.inc(reply.found.input_tokens)
        stage.metrics.output_tokens.inc(reply.found.output_tokens)
        stage.metrics.seconds.observe(asyncio.get_running_loop().time() - exchange.started_s)
        exchange.whole(200, [JSON, *headers], reply.body)
        return
    exchange.refusal(reply.status, reply.body, headers)
