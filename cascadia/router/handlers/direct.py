"""Straight to a stage: the engine's answer as it is."""

from time import monotonic

from cascadia.router.cascade.records import Record
from cascadia.router.cascade.request_limits import urgency_of
from cascadia.router.handlers.relay import relay
from cascadia.router.http.exchange import Exchange
from cascadia.router.openai.answers import Usage, read_tokens, read_usage
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import (
    OTHER_NAMES,
    TOKENIZERS,
    WRITTEN,
    Fields,
    most_written,
    rewritten,
)
from cascadia.router.openai.responses import refers_elsewhere
from cascadia.router.openai.rewrite import Noting
from cascadia.router.openai.stream_usage import estimated, written_in
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.replicas.attempts import Begun
from cascadia.router.replicas.replica import Call
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step

_BYTES = b'"bytes'
"""vLLM's `bytes` and `bytes_only`, whose answers are not JSON: each would count against the engine."""


def call_of(
    exchange: Exchange, fields: Fields, stage: Stage, record: Record, total_s: float, prefix: int | None
) -> Call:
    """Call of the stage's engine, within `total_s`. `prefix` as of `Call`. Raises `ApiError`."""
    body, head = exchange.body, exchange.head
    api = head.api
    if fields.given("encoding_format").startswith(_BYTES):
        message = "Answers are passed on as JSON: `encoding_format` is float or base64."
        raise ApiError(400, "invalid_value", message, param="encoding_format")
    urgency = urgency_of(exchange, fields, total_s)
    priority = urgency.priority
    tokens = prompt_tokens_of(body)
    changes = stage.told(priority, fields, api, tokens) if stage.tells else {}
    if fields.stream:
        changes = {**changes, **fields.telling_usage(api, refused=stage.refuses_usage)}
    if stage.settings.model != fields.model or changes or fields.has_own or fields.misplaced(api):
        body = rewritten(body, stage.settings.model, changes, api, fields.all_members)
    step = Step(stage.name, exchange.started_s)
    record.steps.append(step)
    forwarded = exchange.forwarded if record.trace is None else record.trace.forwarded(step)
    kept = api == "responses" and refers_elsewhere(fields) is not None
    most, answers = (most_written(fields, changes), fields.answers) if api in WRITTEN else (0, 1)
    return Call(
        OTHER_NAMES.get(head.path, head.path),
        body,
        forwarded,
        tokens,
        prefix,
        urgency.deadline_s,
        priority=priority,
        step=step,
        kept=kept,
        most_output=most,
        answers=answers,
        adds_usage=fields.adds_usage(api),
    )


async def straight(
    exchange: Exchange, fields: Fields, stage: Stage, call: Call, begun: Begun | None = None
) -> None:
    """Serves a request that names its stage. `begun` is a first try at `call`, where there is one."""
    step = call.step
    assert step is not None
    # What a model does not write is never a stream, whatever the client says.
    if fields.stream and exchange.head.api in WRITTEN:
        live = await stage.opened(call)
        if live.reply is not None:
            live.close(True)
            step.ended("refused")
            exchange.refusal(live.reply.status, live.reply.body, [stage.header])
            return
        step.first_at_s = monotonic()
        stage.metrics.ttft.observe(step.first_at_s - step.started_at_s)
        api = exchange.head.api
        noting = Noting() if fields.hides_usage(api) else None
        await relay(exchange, api, stage, live=live, headers=[stage.header], noting=noting, step=step)
        return
    read = read_tokens if call.path in TOKENIZERS else read_usage
    reply = await stage.buffered(call, read, begun)
    if reply.found is None:
        step.ended("refused")
        exchange.refusal(reply.status, reply.body, [stage.header])
    else:
        answer(exchange, stage, call, reply.body, reply.found)


def answer(exchange: Exchange, stage: Stage, call: Call, body: bytes, usage: Usage) -> None:
    """The engine's whole answer, to the client as it is."""
    step, read = call.step, call.path not in TOKENIZERS
    stage.counted(usage, step)
    if read and not usage.output_tokens and exchange.head.api in WRITTEN:
        told = estimated(call.body, written_in(body))
        stage.learn(step, told.output_tokens)
        usage = usage if any(usage) else told
    elif read and not any(usage):
        usage = estimated(call.body, 0)
    input_tokens, output_tokens = usage
    if exchange.reservation is not None:
        exchange.reservation.spent = input_tokens + output_tokens
    if step is not None:
        step.used(input_tokens, output_tokens)
        seconds = step.ended("accepted")
        if read:
            stage.metrics.seconds.observe(seconds)
    exchange.reply(stage.head, body)
