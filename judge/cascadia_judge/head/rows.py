"""Answers that were graded, to train a judge on or to examine it with: one JSON object a line.

    {"prompt_id": "q1", "question": "2+2?", "stage": "small", "answer": "4", "quality": 100, "certainty": {...}}

`question` may be chat messages instead: an embedding judge reads what the user said last. `answer` and
`certainty` may be absent, for judging by the question alone or without an engine's log-probabilities.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.certainty import Certainty

KNOWN = frozenset({"prompt_id", "question", "stage", "answer", "quality", "certainty"})


@dataclass(frozen=True, slots=True)
class Row:
    """`quality` 0-100 is what the answer was worth. Rows of one `prompt_id` are never split between
    training and testing."""

    prompt_id: str
    question: str
    stage: str
    answer: str
    quality: float
    certainty: Certainty | None = None


def read_rows(lines: Iterable[str], where: str) -> list[Row]:
    """Raises `BadVerdict`, naming the line."""
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        at = f"{where}: line {number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise BadVerdict(at, "is no JSON", "write one object a line") from None
        rows.append(_row(document, at))
    if not rows:
        raise BadVerdict(where, "has no rows", "write one object a line")
    return rows


def last_said(messages: list[Any]) -> str | None:
    """The text of the last message that a user wrote (OpenAI's form); None where there is none."""
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role", "user") == "user":
            return _text(message.get("content"))
    return None


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return None


def _row(document: Any, at: str) -> Row:
    if not isinstance(document, dict):
        raise BadVerdict(at, "is no object", 'write {"prompt_id": ..., "question": ..., ...}')
    for key in sorted(document.keys() - KNOWN):
        raise BadVerdict(at, f"has an unknown key {key!r}", f"the keys are {', '.join(sorted(KNOWN))}")
    question = document.get("question", "")
    if isinstance(question, list):
        question = last_said(question)
    texts = [question, document.get("answer") or ""]
    if not all(isinstance(text, str) for text in texts):
        raise BadVerdict(at, "question or answer is no text", "write text, or chat messages for the question")
    quality = document.get("quality")
    if isinstance(quality, bool) or not isinstance(quality, int | float) or not 0 <= quality <= 100:
        raise BadVerdict(at, f"quality is {quality!r}"[:80], "write 0-100")
    prompt_id = document.get("prompt_id")
    if not isinstance(prompt_id, str | int) or prompt_id == "":
        raise BadVerdict(at, "prompt_id is missing", "give rows of the same question the same one")
    certainty = document.get("certainty")
    return Row(
        prompt_id=str(prompt_id),
        question=texts[0],
        stage=str(document.get("stage", "")),
        answer=texts[1],
        quality=float(quality) if math.isfinite(quality) else 0.0,
        certainty=None if certainty is None else Certainty.read(certainty, f"{at}: certainty"),
    )
