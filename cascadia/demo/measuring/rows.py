"""Answers of real engines to the training questions, as rows that a judge learns from; written as they come."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.demo.measuring.asking import Answer, ask
from cascadia.demo.questions.question import Question

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def prompt_id(question: Question) -> str:
    return sha256(question.text.encode()).hexdigest()[:12]


def done(path: Path) -> set[tuple[str, str]]:
    """(prompt id, stage) of every line."""
    if not path.exists():
        return set()
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {(row["prompt_id"], row["stage"]) for row in rows}


async def append_rows(path: Path, client: "AsyncOpenAI", stage: str, questions: Sequence[Question]) -> int:
    """Asks `stage` one after another what `path` lacks of it; the number of new rows."""
    _cut_tail(path)
    there = done(path)
    missing = [question for question in questions if (prompt_id(question), stage) not in there]
    with path.open("a", encoding="utf-8") as out:
        for question in missing:
            answer = await ask(client, stage, question, certainty=True)
            out.write(json.dumps(row(answer, stage), ensure_ascii=False) + "\n")
            out.flush()
    return len(missing)


def _cut_tail(path: Path) -> None:
    """A line that an earlier run did not finish is asked for again."""
    if path.exists():
        with path.open("r+b") as rows:
            rows.truncate(rows.read().rfind(b"\n") + 1)


def row(answer: Answer, stage: str) -> dict[str, Any]:
    return {
        "prompt_id": prompt_id(answer.question),
        "kind": answer.question.kind,
        "question": answer.question.text,
        "stage": stage,
        "answer": answer.text,
        "quality": 100.0 if answer.right else 0.0,
        "certainty": asdict(answer.certainty) if answer.certainty else None,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "seconds": round(answer.seconds, 4),
    }
