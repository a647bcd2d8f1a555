"""Eligible stages of a request: those whose context it fits; the last alone, where it wants more choices than
are judged.
"""

from collections.abc import Sequence
from typing import Any

from cascadia.router.cascade.decision import Ask
from cascadia.router.replicas.results import Reply
from cascadia.router.replicas.stage import Stage

FEWEST_BYTES_PER_TOKEN = 6
"""A prompt of this few tokens is not to be had from ordinary text: what is too long even so is not tried."""
_NOT_TEXT = (b'"image_url"', b'"input_audio"', b'"video_url"', b'"file"')
_TOO_LONG = (b"context_length", b"context length", b"context size", b"exceed_context", b"max_model_len")


def route(ask: Ask, cascade: Sequence[Stage], max_judged_choices: int) -> list[Stage]:
    """The stages that may answer, in order; what is too long for one is counted there."""
    stages = list(cascade[ask.first : ask.last + 1])
    if (ask.fields.n or 1) > max_judged_choices:
        return stages[-1:]
    if any(mark in ask.body for mark in _NOT_TEXT):
        return stages
    wanted = ask.fields.output_limit or 1
    fewest = len(ask.body) // FEWEST_BYTES_PER_TOKEN + wanted
    fitting = []
    for stage in stages[:-1]:
        if fewest <= (stage.settings.max_model_len or fewest):
            fitting.append(stage)
        else:
            stage.metrics.escalated("context")
    return fitting + stages[-1:]


def too_long(refused: Reply[Any]) -> bool:
    """Tells whether an engine refused for the length of the prompt, by its words."""
    return refused.status in (400, 413, 422) and any(mark in refused.body.lower() for mark in _TOO_LONG)
