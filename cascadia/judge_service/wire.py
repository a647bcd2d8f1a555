"""JSON that the judge's service reads and writes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cascadia_judge.embedding import Case, Verdict
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.rows import last_said
from cascadia_judge.scores.certainty import Certainty

ITEMS_MAX = 256


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CertaintyBody(_Body):
    """Natural logarithms of the probabilities of an answer's tokens; `mean_margin` is the mean of p(first) -
    p(second).
    """

    sum_logprob: float
    mean_logprob: float
    min_logprob: float
    mean_margin: float
    tokens: int


class CaseBody(_Body):
    question: str | list[dict[str, Any]] = Field(
        description="Text, or chat messages: the user's last is read."
    )
    answer: str | None = Field(None, description="Absent: how good is an answer of this stage likely to be?")
    certainty: CertaintyBody | None = None
    stage: str = Field("", max_length=200)

    def case(self) -> Case:
        """Raises `BadVerdict`."""
        question = self.question if isinstance(self.question, str) else last_said(self.question)
        if question is None:
            raise BadVerdict("question", "has no message of a user", "give text, or messages with one")
        found = self.certainty
        certainty = None if found is None else Certainty.read(found.model_dump(), "certainty")
        return Case(question, self.answer, certainty, self.stage)


class ItemsBody(_Body):
    items: list[CaseBody] = Field(min_length=1, max_length=ITEMS_MAX)


class VerdictBody(_Body):
    """`score` 0-100: the quality to be expected. `certainty` 0-1 is the judge's own; `tokens` what it
    read. `judge` tells who says so from a judge that was trained otherwise."""

    score: float
    certainty: float
    tokens: int
    judge: str

    @classmethod
    def of(cls, verdict: Verdict, judge: str) -> "VerdictBody":
        return cls(score=verdict.score, certainty=verdict.certainty, tokens=verdict.tokens, judge=judge)


class VerdictsBody(_Body):
    verdicts: list[VerdictBody]
