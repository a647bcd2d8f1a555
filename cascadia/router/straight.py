"""Straight to a stage: the engine's answer as it is."""

import asyncio
from typing import Any

from cascadia.router.answers import usage_of_reply
from cascadia.router.exchange import JSON, Exchange, Headers
from cascadia.router.relay import relay
from cascadia.router.replica import Call
from cascadia.router.requests import APIS, Fields, rewritten, tokens_of
from cascadia.router.stage import Stage


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
    if stage.settings.model != fields.model or fields.has_own:
        body = rewritten(body, stage.settings.model, {})
    deadline_s = exchange.started_s + total_s
    if fields.deadline_ms:
        deadline_s = exchange.started_s + min(total_s, fields.deadline_ms / 1000.0)
    tokens = tokens_of(body, fields)
    call = Call(path.encode("ascii"), body, exchange.forwarded, tokens, prefix, deadline_s)
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
        await relay(exchange, APIS[path], stage, live, headers, None)
        return
    reply = await stage.buffered(call, usage_of_reply)
    if reply.found is not None:
        stage.metrics.input_tokens.inc(reply.found.input_tokens)
        stage.metrics.output_tokens.inc(reply.found.output_tokens)
        stage.metrics.seconds.observe(asyncio.get_running_loop().time() - exchange.started_s)
        await exchange.whole(200, [JSON, *headers], reply.body)
        return
    await exchange.refusal(reply.status, reply.body, headers)
