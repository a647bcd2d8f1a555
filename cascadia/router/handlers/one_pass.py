"""The answer of the cascade of one-pass models as the client gets it."""

from collections.abc import Callable, Sequence
from typing import Any

from cascadia.router.cascade.decision import Ask
from cascadia.router.cascade.one_pass import OnePassCascade, OnePassDecision
from cascadia.router.handlers.deliver import step_item
from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import JSON, Headers
from cascadia.router.openai.bounded import turn_after
from cascadia.router.telemetry.stage_record import Step


async def in_one_pass(
    exchange: Exchange,
    ask: Ask,
    cascade: OnePassCascade,
    entry: dict[str, Any],
    usd_of: Callable[[Sequence[Step]], float | None],
) -> None:
    """Serves a request to the cascade: the decision, and then the answer. `usd_of`: dollars of turns, None where no
    price is known."""
    await turn_after(ask.body)
    decision = await cascade.decide(ask)
    if exchange.reservation is not None:
        exchange.reservation.spent = decision.total.input_tokens
    if decision.refused is not None:
        exchange.refusal(decision.refused.status, decision.refused.body, [])
        return
    stage = decision.stage
    assert stage is not None and decision.answer is not None  # noqa: PT018 (no test)
    entry |= {
        "stage": stage.name,
        "score": decision.score,
        "attempts": decision.attempts,
        "stopped": decision.stopped,
    }
    headers: Headers = [stage.header, (b"x-cascadia-attempts", b"%d" % decision.attempts)]
    headers.append((b"x-cascadia-steps", b", ".join(map(step_item, decision.steps))))
    if decision.score is not None:
        headers.append((b"x-cascadia-score", f"{decision.score:.2f}".encode("ascii")))
    usd = usd_of(decision.steps)
    if usd is not None:
        headers.append((b"x-cascadia-usd", f"{usd:.9f}".encode("ascii")))
    if decision.stopped is not None:
        headers.append((b"x-cascadia-stopped", decision.stopped.encode("ascii")))
    if ask.gear is not None:
        headers.append((b"x-cascadia-gear", b"%d" % ask.gear.number))
    exchange.whole(200, [JSON, *headers], decision.answer(_note(decision, usd)))


def _note(decision: OnePassDecision, usd: float | None) -> dict[str, Any]:
    assert decision.stage is not None
    tokens = decision.total.input_tokens
    note: dict[str, Any] = {
        "stage": decision.stage.name,
        "score": decision.score,
        "attempts": decision.attempts,
        "steps": [step.told() for step in decision.steps],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens},
    }
    if usd is not None:
        note["usd"] = usd
    if decision.stopped is not None:
        note["stopped"] = decision.stopped
    return note
