"""Graded answers to examine judges on: public ones (read in place), and rows of one's own models."""

import csv
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cascadia_judge.head.features import (
    ANSWER_TOKENS,
    CERTAINTY_NAMES,
    QUESTION_TOKENS,
    Floats,
    Seen,
    shape_of,
)
from cascadia_judge.head.rows import Row
from cascadia_judge.injection.normalise import plain

Vectors = Callable[[Sequence[str], int], np.ndarray]

WILDBENCH = (
    "gemma-2b-it",
    "gemma-7b-it",
    "Phi-3-mini-128k-instruct",
    "gpt-3.5-turbo-0125",
    "reka-edge",
    "reka-core-20240501",
    "Qwen1.5-72B-Chat-greedy",
)
"""Each takes four minutes of a core to encode; reka-flash, between its siblings, is left out."""
MIXTRAL, GPT4 = "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"


@dataclass(frozen=True, slots=True, eq=False)
class Graded:
    """Rows of answers: `seen` and `quality` (n), by question and by model; `asked`: whether questions are
    known."""

    seen: Seen
    quality: Floats
    questions: list[str]
    models: list[str]

    @property
    def asked(self) -> bool:
        return bool((self.seen.question_shape[:, 0] > 0).any())

    @property
    def certain(self) -> bool:
        return not bool(np.isnan(self.seen.certainty).any())

    def of(self, model: str) -> np.ndarray:
        return np.flatnonzero(np.array(self.models) == model)


def wildbench(folder: Path, vectors: Vectors) -> Graded:
    """The files have no question: a judge sees answers alone. Scores 1-10 of GPT-4o become 0-100."""
    rows = []
    for model in WILDBENCH:
        with gzip.open(folder / f"judging/wildbench_gpt4o_{model}.json.gz", "rt") as file:
            for entry in json.load(file):
                quality = (float(entry["score"]) - 1) / 9 * 100
                rows.append(Row(entry["session_id"], "", model, entry["model_output"], quality))
    return graded(rows, vectors)


def gsm8k(folder: Path, vectors: Vectors) -> tuple[Graded, Floats]:
    """Mixtral's answers, right or wrong, and the quality of GPT-4's to the same questions."""
    with gzip.open(folder / "quality/routellm_gsm8k_responses.csv.gz", "rt") as file:
        entries = list(csv.DictReader(file))
    rows = [
        Row(str(i), e["prompt"], MIXTRAL, e[f"{MIXTRAL}_response"], 100.0 * (e[MIXTRAL] == "True"))
        for i, e in enumerate(entries)
    ]
    return graded(rows, vectors), np.array([100.0 * (e[GPT4] == "True") for e in entries])


def graded(rows: Sequence[Row], vectors: Vectors) -> Graded:
    questions = [plain(row.question) for row in rows]
    answers = [plain(row.answer) for row in rows]
    asked = vectors(questions, QUESTION_TOKENS)
    unknown = (np.nan,) * len(CERTAINTY_NAMES)
    seen = Seen(
        question=asked.astype(np.float64),
        answer=vectors(answers, ANSWER_TOKENS).astype(np.float64),
        question_shape=np.array([shape_of(text) for text in questions]),
        answer_shape=np.array([shape_of(text) for text in answers]),
        certainty=np.array(
            [
                (c.sum_logprob, c.mean_logprob, c.min_logprob, c.mean_margin, float(np.log1p(c.tokens)))
                if (c := row.certainty)
                else unknown
                for row in rows
            ]
        ),
        tokens=np.zeros(len(rows), dtype=np.int64),
    )
    quality = np.array([row.quality for row in rows])
    return Graded(seen, quality, [row.prompt_id for row in rows], [row.stage for row in rows])
