"""Eligible stages of a request: those of its gear whose context it fits; the last alone, where it wants more choices
than are judged, or nothing that a judge could read.
"""

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from cascadia.router.cascade.decision import Ask
from cascadia.router.openai.bounded import LONG_BYTES, turn_after
from cascadia.router.openai.texts import tells_of_media
from cascadia.router.replicas.results import Reply
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import ACCEPTS_ALL, GearSettings

FEWEST_BYTES_PER_TOKEN = 6
"""A prompt of this few tokens is not to be had from ordinary text: what is too long even so is not tried."""
UNREAD = (400, 413, 415, 422)
MARK_BYTES = 16
_TOO_LONG = (b"context_length", b"context length", b"context size", b"exceed_context", b"max_model_len")


class Way(NamedTuple):
    """`stages` are asked in order; `beyond` are asked where none of them serves, or the prompt is too long for them."""

    stages: list[Stage]
    beyond: list[Stage]


async def route(ask: Ask, cascade: Sequence[Stage], max_judged_choices: int) -> Way:
    """The stages that may answer, in order; what is too long for one is counted there."""
    allowed = list(cascade[ask.first : ask.last + 1])
    larger = {stage.name for stage in cascade[ask.last + 1 :]}
    stages, beyond = Way(allowed, []) if ask.gear is None else _in_gear(ask, ask.gear, allowed, larger)
    # All choices go to the client, and each would cost a verdict: as many as that are not worth a cascade.
    if ask.fields.choices > max_judged_choices or ask.fields.unwritten:
        return Way(stages[-1:], beyond)
    wanted = ask.fields.output_limit or 1
    fewest = len(ask.body) // FEWEST_BYTES_PER_TOKEN + wanted
    # Of the largest stage the engine says by itself what is too long.
    fitting = [
        stage
        for stage in stages
        if stage is allowed[-1] or fewest <= (stage.settings.max_model_len or fewest)
    ]
    if len(fitting) == len(stages) or await _holds_more_than_text(ask.body):
        return Way(stages, beyond)
    for stage in stages:
        if stage not in fitting:
            stage.metrics.escalated("context")
    return Way(fitting, beyond) if fitting else Way(beyond[:1], beyond[1:])


async def _holds_more_than_text(body: bytes) -> bool:
    for at in range(0, len(body), LONG_BYTES):
        # What is looked for may be cut by the end of a part.
        if tells_of_media(body[max(0, at - MARK_BYTES) : at + LONG_BYTES]):
            return True
        await turn_after(body)
    return False


def gear_threshold(gear: GearSettings, stage: Stage) -> float:
    """Score from which an answer of `stage` is enough in `gear`, where another stage could still be asked.

    The last stage of a gear is content with its own answers, and so is one beyond it.
    """
    if stage.name not in gear.stages[:-1]:
        return ACCEPTS_ALL
    return gear.thresholds.get(stage.name, stage.settings.threshold)


def _in_gear(ask: Ask, gear: GearSettings, allowed: list[Stage], forbidden: Container[str]) -> Way:
    """Stages of `allowed`, by the request's own limits, that its gear asks; and the others, larger ones first.
    `forbidden` are larger than all of them.

    The limits stand above the gear: where they leave none of its stages, the one next to them answers, and who names a
    least score may go on beyond its last stage. Where none of its stages serves, the others do.
    """
    asked = [stage for stage in allowed if stage.name in gear.stages]
    if not asked:
        above = gear.stages[0] in forbidden
        return Way(allowed[-1:], allowed[-2::-1]) if above else Way(allowed[:1], allowed[1:])
    after = allowed.index(asked[-1]) + 1
    larger, smaller = allowed[after:], [stage for stage in reversed(allowed[:after]) if stage not in asked]
    if ask.score_min > 0:
        return Way(asked + larger, smaller)
    if any(stage.ready for stage in asked) or not (larger or smaller):
        return Way(asked, larger + smaller)
    others = larger + smaller
    return Way(others[:1], others[1:])


async def unfit(refused: Reply[Any], body: bytes) -> str | None:
    """Why another stage may serve what an engine refused: a prompt too long for its context, or pictures and the like,
    which a smaller model often cannot read. None where it is the client's mistake."""
    if too_long(refused):
        return "context"
    return "media" if refused.status in UNREAD and await _holds_more_than_text(body) else None


def too_long(refused: Reply[Any]) -> bool:
    """Tells whether an engine refused for the length of the prompt, by its words."""
    if refused.status not in UNREAD:
        return False
    said = refused.body[:LONG_BYTES].lower()
    return any(mark in said for mark in _TOO_LONG)
