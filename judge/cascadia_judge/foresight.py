"""Foresight from the question alone: heads that expect how good each stage's answer will be.

Given questions and how good every stage's answer to each was, one head a stage (and one for any) learns from the
question's vector and shape. What a head says of a question that it learnt from is too good; so the values that
levels are chosen on are those of folds that did not see it. The head that is served has learnt from all questions. It
differs from each fold's by the questions of one fold: that difference out-of-fold values leave out
(docs/models/quality.md).
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.head import Head
from cascadia_judge.head.model_selection import see, teach
from cascadia_judge.head.rows import Row
from cascadia_judge.head.training import ROWS_MIN, Course

Floats = NDArray[np.float64]

KEY = "foreseen"
_HALF = 0.5


class Foreseen(NamedTuple):
    """`values` (S, m), 0-100: what folds that did not see the question expect of each stage's answer to it."""

    prompt_ids: tuple[str, ...]
    stages: tuple[str, ...]
    values: Floats


def learn(
    encoder: Encoder,
    questions: Sequence[str],
    prompt_ids: Sequence[str],
    *,
    stages: Sequence[str],
    quality: Floats,
    course: Course,
    told: Callable[[float], None] = lambda _: None,
) -> tuple[tuple[Head, ...], Foreseen]:
    """`quality` (S, m) of m questions. Raises `BadVerdict` where they are too few, or alike in what they are worth."""
    rows = [
        Row(prompt, question, stage, "", float(worth))
        for stage, of_stage in zip(stages, quality, strict=True)
        for prompt, question, worth in zip(prompt_ids, questions, of_stage, strict=True)
    ]
    # The same questions come once for each stage: looked at once.
    seen = see(encoder, rows[: len(prompt_ids)], lambda done: told(_HALF * done))
    every = seen.take(np.tile(np.arange(len(prompt_ids)), len(stages)))
    taught = teach(rows, every, course, lambda done: told(_HALF + _HALF * done), own_from=ROWS_MIN)
    values = taught.foreseen.reshape(len(stages), len(prompt_ids))
    return taught.heads, Foreseen(tuple(prompt_ids), tuple(stages), values)


def written(foreseen: Foreseen) -> dict[str, object]:
    """JSON form of `foreseen`, as it stands in the head's file under `KEY`."""
    values = np.ascontiguousarray(foreseen.values, dtype="<f4")
    return {
        "prompt_ids": list(foreseen.prompt_ids),
        "stages": list(foreseen.stages),
        "values": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def read(text: str, where: str) -> Foreseen:
    """Raises `BadVerdict` where the file does not say what its folds foresaw."""
    instead = "name a file that `cascadia judge train --foresight` has written"
    try:
        found = json.loads(text)[KEY]
        ids, stages = tuple(map(str, found["prompt_ids"])), tuple(map(str, found["stages"]))
        content = base64.b64decode(found["values"], validate=True)
        values = np.frombuffer(content, dtype="<f4").reshape(len(stages), len(ids)).astype(np.float64)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise BadVerdict(where, "does not say what was foreseen of which prompt", instead) from None
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0 or values.max(initial=0.0) > 100:
        raise BadVerdict(where, "foresees quality that is not within 0-100", instead)
    return Foreseen(ids, stages, values)
