"""The cascade's answer as the client gets it: whole, released in one piece, or live."""

from typing import Any
from urllib.parse import quote

from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.decision import Ask, Decision
from cascadia.router.handlers.relay import relay
from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import JSON, Headers
from cascadia.router.openai.answers import Usage
from cascadia.router.openai.bounded import turn_after
from cascadia.router.openai.logprobs import ALL
from cascadia.router.openai.rewrite import (
    Noting,
    released_events,
    released_response,
    with_logprobs,
    with_note,
)
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step


async def cascaded(
    exchange: Exchange, ask: Ask, cascade: Cascade, entry: dict[str, Any], *, heartbeat_s: float
) -> None:
    """Serves a request to the cascade: the decision, and then the answer as the client asked for it."""
    fields = ask.fields
    if fields.stream:
        exchange.beat_every(heartbeat_s)
    await turn_after(ask.body)
    decision = await cascade.decide(ask)
    stage = decision.stage
    if exchange.reservation is not None:
        exchange.reservation.spent = decision.total.input_tokens + decision.total.output_tokens
    if decision.refused is not None or stage is None:
        refused = decision.refused
        assert refused is not None
        exchange.refusal(refused.status, refused.body, [])
        return
    held = decision.held
    score = held.score if held is not None else None
    entry |= {
        "stage": stage.name,
        "score": score,
        "attempts": decision.attempts,
        "stopped": decision.stopped,
    }
    headers = _headers(decision, stage, score, cascade.usd(decision.steps))
    if held is not None and held.exit_tokens is not None:
        headers.append((b"x-cascadia-exit", b"%s@%d" % (stage.header[1], held.exit_tokens)))
    if ask.gear is not None:
        headers.append((b"x-cascadia-gear", b"%d" % ask.gear.number))
    response = ask.api == "responses"
    if decision.live is not None:
        asked_usage = response or fields.asks_usage

        before, live = decision.total, decision.steps[-1]

        def noted(usage: Usage) -> dict[str, Any]:
            decision.total = before.plus(usage)
            # So far: an engine may tell its usage more than once.
            live.input_tokens, live.output_tokens = usage
            return _note(decision, stage, score, cascade.usd(decision.steps))

        noting = Noting(noted, response=response) if asked_usage else Noting()
        await relay(
            exchange,
            ask.api,
            stage,
            live=decision.live,
            headers=headers,
            noting=noting,
            step=live,
        )
        return
    assert held is not None
    note = _note(decision, stage, score, cascade.usd(decision.steps))
    if ask.explain and note.get("usd") is not None:
        for told, step in zip(note["steps"], decision.steps, strict=True):
            told["usd"] = cascade.usd([step])
    if fields.stream:
        if response:
            content = await released_response(held.body, note)
        else:
            content = await released_events(
                held.body, note, usage=fields.asks_usage, logprobs=held.alternatives
            )
        exchange.begin_stream(headers)
        exchange.last_part(content)
        return
    content = held.body
    if held.alternatives != ALL and any(choice.logprobs for choice in held.written.choices):
        content = await with_logprobs(content, held.alternatives)
    exchange.whole(200, [JSON, *headers], with_note(content, note))


def _note(decision: Decision, stage: Stage, score: float | None, usd: float | None) -> dict[str, Any]:
    total = decision.total
    note: dict[str, Any] = {
        "stage": stage.name,
        "score": score,
        "attempts": decision.attempts,
        "steps": [step.told() for step in decision.steps],
        "usage": {
            "prompt_tokens": total.input_tokens,
            "completion_tokens": total.output_tokens,
            "total_tokens": total.input_tokens + total.output_tokens,
        },
    }
    if usd is not None:
        note["usd"] = usd
    if decision.stopped is not None:
        note["stopped"] = decision.stopped
    return note


def _headers(decision: Decision, stage: Stage, score: float | None, usd: float | None) -> Headers:
    headers: Headers = [
        stage.header,
        (b"x-cascadia-attempts", str(decision.attempts).encode("ascii")),
    ]
    headers.append((b"x-cascadia-steps", b", ".join(map(step_item, decision.steps))))
    if score is not None:
        headers.append((b"x-cascadia-score", f"{score:.2f}".encode("ascii")))
    if usd is not None and decision.live is None:
        # Of a stream that is still to come, the event with its usage says so.
        headers.append((b"x-cascadia-usd", f"{usd:.9f}".encode("ascii")))
    if decision.stopped is not None:
        headers.append((b"x-cascadia-stopped", decision.stopped.encode("ascii")))
    return headers


def step_item(step: Step) -> bytes:
    """The step as an item of a structured field (RFC 8941): `small;outcome=score;score=41.20;threshold=60.00`."""
    # A plan's names are anyone's: what may not stand in such a field is written as %XX.
    parts = [quote(step.stage, safe="/:.!$&'*+"), f"outcome={step.outcome}"]
    if step.other:
        parts.append("routing=other")
    for name, value in (("score", step.score), ("threshold", step.threshold)):
        if value is not None:
            parts.append(f"{name}={value:.2f}")
    return ";".join(parts).encode("ascii")
