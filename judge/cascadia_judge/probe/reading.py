"""Reading of one answer: values of one layer where the question ends, in the mean of the answer, at its last token.

Of the answer's tokens the last one is not there: an engine stops when it has drawn it, and runs it through no layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import Floats
from cascadia_judge.probe.kv_state import KvState

DEPTH = 0.6
"""Layer that is read, as a share of all: docs/models/judge.md compares it with others."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """`question` (width); `answer` (2 width), None where nothing is written yet."""

    question: Floats
    answer: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """n of them: `question` (n, width), and `whole` (n, 3 width) with the answer's behind."""

    question: Floats
    whole: Floats


def layer_of(layers: int) -> int:
    return min(layers - 1, round(DEPTH * layers))


def read(state: KvState, layer: int, prompt_tokens: int) -> Reading:
    """`prompt_tokens` come before the answer. Raises `BadVerdict` where the state is of another request."""
    if not 0 < prompt_tokens <= state.tokens:
        what = f"holds {state.tokens} tokens, and the prompt has {prompt_tokens}"
        raise BadVerdict("saved slot", what, "save it before the slot is asked again")
    values = state.values(layer).astype(np.float64)
    answer = values[prompt_tokens:]
    if not len(answer):
        return Reading(values[-1], None)
    return Reading(values[prompt_tokens - 1], np.concatenate([answer.mean(axis=0), answer[-1]]))


def stacked(readings: Sequence[Reading]) -> Readings:
    """Raises `BadVerdict` where one has no answer."""
    if any(reading.answer is None for reading in readings):
        raise BadVerdict("rows", "have answers without text", "leave them out")
    question = np.array([reading.question for reading in readings])
    return Readings(question, np.hstack([question, np.array([reading.answer for reading in readings])]))
