"""Features of an embedding judge, as numbers: one row an answer, grouped by what they need.

question   vector of the question, and its length: known before anything is asked
answer     vector of the answer, its product with the question's (Reimers and Gurevych 2019 use the difference), their
           cosine, and lengths
certainty  the engine's log-probabilities
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.encoder.memory import Encodes
from cascadia_judge.injection.normalise import plain
from cascadia_judge.scores.certainty import Certainty

Group = Literal["question", "answer", "certainty"]
GROUPS: tuple[Group, ...] = get_args(Group)
Floats = NDArray[np.float64]

QUESTION_TOKENS = 128
ANSWER_TOKENS = 254
"""With the two around them, as many as MiniLM was made to read."""

CERTAINTY_NAMES = ("sum logprob", "mean logprob", "least logprob", "mean margin", "log tokens")


class JudgeInput(NamedTuple):
    """One answer to be looked at; `answer` None where there is none yet."""

    question: str
    answer: str | None
    certainty: Certainty | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """n answers: `question` and `answer` (n, size) vectors of length 1 or 0, `shape` (n, ...) of their
    texts, `certainty` (n, 5) with NaN where there was none; `tokens` (n) read by the encoder.
    """

    question: Floats
    answer: Floats
    question_shape: Floats
    answer_shape: Floats
    certainty: Floats
    tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.question)

    def take(self, rows: NDArray[np.int64]) -> "Seen":
        return Seen(
            self.question[rows],
            self.answer[rows],
            self.question_shape[rows],
            self.answer_shape[rows],
            self.certainty[rows],
            self.tokens[rows],
        )


def joined(parts: Sequence[Seen]) -> Seen:
    return Seen(*(np.concatenate([getattr(part, name) for part in parts]) for name in Seen.__slots__))


def look(encoder: Encodes, asked: Sequence[JudgeInput]) -> Seen:
    """One row an answer, in order. Question and answer are seen as they look (see `plain`)."""
    questions = [plain(one.question) for one in asked]
    answers = [plain(one.answer) if one.answer is not None else "" for one in asked]
    known = {text: at for at, text in enumerate(dict.fromkeys(questions))}
    of_question = encoder.encoded(list(known), QUESTION_TOKENS)
    of_answer = encoder.encoded(answers, ANSWER_TOKENS)
    at_question = np.array([known[text] for text in questions], dtype=np.int64)
    return Seen(
        question=of_question.vectors[at_question].astype(np.float64),
        answer=of_answer.vectors.astype(np.float64),
        question_shape=np.array([shape_of(text) for text in questions]).reshape(len(asked), -1),
        answer_shape=np.array([shape_of(text) for text in answers]).reshape(len(asked), -1),
        certainty=np.array([_certainty(one.certainty) for one in asked]).reshape(len(asked), -1),
        tokens=of_answer.tokens + of_question.tokens[at_question],
    )


SHAPE_NAMES = ("log characters", "log words", "digits", "capitals", "punctuation", "line breaks")


def shape_of(text: str) -> tuple[float, ...]:
    """Lengths as logarithms, and shares (0-1) of characters of each kind; all 0 for an empty text."""
    count = max(1, len(text))
    return (
        float(np.log1p(len(text))),
        float(np.log1p(len(text.split()))),
        sum(c.isdigit() for c in text) / count,
        sum(c.isupper() for c in text) / count,
        sum(not c.isalnum() and not c.isspace() for c in text) / count,
        text.count("\n") / count,
    )


def _certainty(found: Certainty | None) -> tuple[float, ...]:
    if found is None:
        return (np.nan,) * len(CERTAINTY_NAMES)
    return (
        found.sum_logprob,
        found.mean_logprob,
        found.min_logprob,
        found.mean_margin,
        float(np.log1p(found.tokens)),
    )
