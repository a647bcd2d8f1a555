"""The embedding judge: a sentence encoder, and heads trained on graded answers.

A head is for one stage or for any, and needs what its groups say: the question, the answer, the engine's
certainty. Of those whose needs are met, that of the answer's own stage comes before one for any, and more
is better than less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cascadia_judge.encoder.memory import Encodes
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.arrays import digest_of
from cascadia_judge.head.features import JudgeInput, look
from cascadia_judge.head.file import BYTES_MAX, load
from cascadia_judge.head.head import Head
from cascadia_judge.injection.normalise import is_blank
from cascadia_judge.scores.certainty import Certainty


class Verdict(NamedTuple):
    """`score` 0-100 is the quality to be expected, `certainty` 0-1 the judge's own, `tokens` what it had to
    read."""

    score: float
    certainty: float
    tokens: int


class Case(NamedTuple):
    """Question and answer to be judged; without an answer, the judge says how good one of `stage` can be
    expected to be.
    """

    question: str
    answer: str | None = None
    certainty: Certainty | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingJudge:
    """Thread-safe. `about` is what the file says of its training, `digest` tells its bytes from those of others."""

    encoder: Encodes
    heads: tuple[Head, ...]
    about: dict[str, Any]
    digest: str = ""

    @classmethod
    def read(cls, file: Path, encoder: Encodes) -> "EmbeddingJudge":
        """Raises `BadVerdict` where `file` is no judge, or one for another encoder."""
        if not file.is_file() or file.stat().st_size > BYTES_MAX:
            raise BadVerdict(
                str(file), "is no file of a judge", "name one that `cascadia judge train` has written"
            )
        content = file.read_bytes()
        heads, about = load(content.decode("utf-8", "replace"), str(file))
        for head in heads:
            if any(axes.shape[0] != encoder.size for axes in head.basis.axes.values()):
                raise BadVerdict(
                    str(file), "was trained on another encoder", f"use {about.get('encoder', 'its own')}"
                )
        return cls(encoder, heads, about, digest_of(content))

    def score(
        self, question: str, answer: str | None, certainty: Certainty | None = None, stage: str = ""
    ) -> Verdict:
        return self.scores([Case(question, answer, certainty, stage)])[0]

    def scores(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case. Raises `BadVerdict` where no head can judge one of them."""
        if not cases:
            return []
        chosen = [self.head_for(case) for case in cases]
        # What a head does not look at need not be encoded.
        seen = look(
            self.encoder,
            [
                JudgeInput(case.question, case.answer if "answer" in head.groups else None, case.certainty)
                for case, head in zip(cases, chosen, strict=True)
            ],
        )
        verdicts: list[Verdict | None] = [None] * len(cases)
        for head in dict.fromkeys(chosen):
            rows = np.flatnonzero([head is one for one in chosen])
            score = head.score(seen.take(rows))
            for i, at in enumerate(rows.tolist()):
                answer = cases[at].answer
                empty = answer is not None and is_blank(answer)
                quality = 0.0 if empty else float(score.quality[i])
                verdicts[at] = Verdict(quality, float(score.certainty[i]), int(seen.tokens[at]))
        return [verdict for verdict in verdicts if verdict is not None]

    def head_for(self, case: Case) -> Head:
        known = {"question"}
        if case.answer is not None:
            known.add("answer")
            known |= {"certainty"} if case.certainty is not None else set()
        able = [
            head for head in self.heads if head.stage in ("", case.stage) and known.issuperset(head.groups)
        ]
        if case.answer is not None:
            # What the question alone promises is no verdict on an answer.
            able = [head for head in able if head.groups != ("question",)]
        if not able:
            lacking = "an answer" if case.answer is None else "log-probabilities"
            raise BadVerdict("judge", f"cannot judge without {lacking}", "train it on rows without them")
        return max(able, key=lambda head: _preference(head, case))

    @property
    def foresees(self) -> bool:
        """Tells whether every stage has a head that knows the question alone."""
        return any(head.stage == "" and head.groups == ("question",) for head in self.heads)

    @property
    def wants_certainty(self) -> bool:
        return any("certainty" in head.groups for head in self.heads)


def _preference(head: Head, case: Case) -> tuple[bool, bool, int]:
    """A head that knows the engine's certainty may leave the text unread, and is the better one all the same."""
    return head.stage == case.stage, "certainty" in head.groups, len(head.groups)
