"""Budgets of a stage that thinks, chosen from the question: the first of its exits at which the question alone promises
an answer as good as the whole one, by the dial in force. Its engine ends the thinking there; there is no trial.

A request that is drawn as evidence thinks to the end. Beside it, each budget that some setting of the dial would have
chosen has an answer of its own, and the judge scores them all.
"""

import asyncio
from collections.abc import Mapping
from functools import reduce
from typing import Any

from cascadia.router.cascade.decision import Ask
from cascadia.router.cascade.scoring import READERS, Scoring
from cascadia.router.cascade.thinking import Thought, left_of_limit
from cascadia.router.gates.usage import spend
from cascadia.router.openai.answers import Written
from cascadia.router.openai.bounded import members_told_apart
from cascadia.router.openai.errors import StageFailed
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step


async def budgeted(ask: Ask, stage: Stage, step: Step, scoring: Scoring) -> Thought:
    """The stage's answer within the budget that was chosen. Raises `StageFailed`."""
    exits, settings = stage.exits, stage.settings
    drawn = exits.drawn()
    # Nobody pays for budgets that are not in force.
    looks = drawn or any(map(exits.open, range(len(settings.exits))))
    foreseen = await _foreseen(ask, stage, scoring) if looks else {}
    if drawn and foreseen:
        return await _compared(ask, stage, step, scoring, foreseen)
    at = next((at for at, score in foreseen.items() if not drawn and exits.leaves(at, score)), None)
    found = await _whole(ask, stage, step, scoring, at)
    if at is not None and not found.body:
        # E.g. an engine that was started without thinking budgets.
        at, found = None, await _whole(ask, stage, step, scoring, None)
    if at is not None:
        exit_ = settings.exits[at]
        found.exit_tokens, found.threshold, found.good = exit_.thinking_tokens, exit_.threshold, True
    return found


async def _foreseen(ask: Ask, stage: Stage, scoring: Scoring) -> Mapping[int, float]:
    """Scores of the budgets that may be chosen; none where the client chose one itself, or wants a verdict."""
    field, limit = stage.settings.budget_field or "", left_of_limit(ask, 0)
    if ask.score_min > 0 or _bounded_itself(ask, field.partition(".")[0]):
        return {}
    # Where the request ends first, there is nothing left to answer with.
    most = [each.thinking_tokens for each in stage.settings.exits]
    found = await scoring.foreseen(ask, stage)
    return {at: score for at, score in found.items() if limit is None or most[at] < limit}


def _bounded_itself(ask: Ask, field: str) -> bool:
    """Tells whether the client's request has the field. Names are looked for as they are: bodies may be long."""
    return field.encode() in ask.body and field in (members_told_apart(ask.body) or {field: None})


async def _whole(ask: Ask, stage: Stage, step: Step, scoring: Scoring, at: int | None) -> Thought:
    more = {} if at is None else _told(stage, at)
    call = scoring.call(ask, stage, step, gated=True, more=more)
    reply = await stage.buffered(call, READERS[False, False])
    if reply.found is None:
        return Thought(reply)
    stage.counted(reply.found.usage, step)
    return Thought(reply, reply.body, reply.found, reply.found.usage)


async def _compared(
    ask: Ask, stage: Stage, step: Step, scoring: Scoring, foreseen: Mapping[int, float]
) -> Thought:
    """The whole answer; the certificate is told what those within budgets are worth beside it, where all are known."""
    places = stage.exits.tried(foreseen)
    trials = [asyncio.ensure_future(_trial(ask, stage, step, scoring, at)) for at in places]
    try:
        found = await _whole(ask, stage, step, scoring, None)
        if not found.body:
            return found
        answers = await asyncio.gather(*trials)
    finally:
        for trial in trials:
            trial.cancel()
    scores = dict[int, float]()
    for at, written in zip(places, answers, strict=True):
        score = None if written is None else await scoring.score(ask, stage, written, step)
        if score is None:
            return found
        scores[at] = score
    if scores:
        found.score = await scoring.score(ask, stage, found.written, step)
    if not scores or found.score is not None:
        lost = stage.exits.feed(scores, found.score or 0.0, ask.fields.given("messages"), foreseen)
        stage.metrics.thought_on(lost)
    return found


async def _trial(ask: Ask, stage: Stage, step: Step, scoring: Scoring, at: int) -> Written | None:
    """An answer within a budget that nobody gets; None where there is none."""
    call = scoring.call(ask, stage, None, gated=True, more=_told(stage, at))
    try:
        reply = await stage.buffered(call, READERS[False, False])
    except StageFailed:
        return None
    if reply.found is not None:
        spend(reply.found.usage)
        step.again(*reply.found.usage)
        stage.counted(reply.found.usage)
    return reply.found


def _told(stage: Stage, at: int) -> dict[str, Any]:
    """The engine's own field for a budget, e.g. `{"custom_params": {"thinking_budget": 512}}`."""
    *outer, name = (stage.settings.budget_field or "").split(".")
    tokens: Any = {name: stage.settings.exits[at].thinking_tokens}
    return dict(reduce(lambda inner, key: {key: inner}, reversed(outer), tokens))
