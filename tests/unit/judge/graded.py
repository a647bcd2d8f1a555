"""Made-up graded answers on a tiny encoder: right ones speak of cats, and the engine is surer of them."""

import json
from pathlib import Path

import numpy as np

from cascadia_judge.head.rows import Row
from cascadia_judge.scores.certainty import Certainty

WORDS = ("two", "four", "paris", "the", "no", "and")


def rows(count: int, seed: int = 0, *, certain: bool = True, stage: str = "small") -> list[Row]:
    """`count` questions; an answer is right for certain where it has a cat, and more often where it is sure."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        cat, sure = rng.random() < 0.5, float(rng.random())
        words = [*rng.choice(WORDS, 4), *(["cat", "cat"] if cat else [])]
        right = rng.random() < (0.95 if cat else 0.6 * sure)
        certainty = Certainty.of([np.log(0.05 + 0.95 * sure)], [sure]) if certain else None
        question = " ".join(["what", "is", *rng.choice(WORDS, 2), "?"])
        made.append(Row(f"q{i}", question, stage, " ".join(words), 100.0 * right, certainty))
    return made


def write(path: Path, made: list[Row]) -> Path:
    lines = []
    for row in made:
        document = {
            "prompt_id": row.prompt_id,
            "question": row.question,
            "stage": row.stage,
            "answer": row.answer,
            "quality": row.quality,
        }
        if row.certainty is not None:
            document["certainty"] = row.certainty.document()
        lines.append(json.dumps(document))
    path.write_text("\n".join(lines) + "\n")
    return path
