"""Cost of a verdict in tokens, for each kind of judge."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.prompt import OUTPUT_TOKENS, PROMPT_TOKENS

Kind = Literal["llm", "embedding", "certainty"]
Ints = NDArray[np.int64]

EMBEDDING_TOKENS_MAX = 256
"""A MiniLM sentence encoder reads so many tokens and cuts off the rest."""


@dataclass(frozen=True, slots=True)
class JudgeLoad:
    """Tokens of one verdict: `prompt_tokens` beside question and answer, and `output_tokens` written.

    `reads_max` is how much of question and answer together it reads at most; None where there is no limit.
    """

    kind: Kind
    prompt_tokens: int
    output_tokens: int
    reads_max: int | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens < 0 or self.output_tokens < 0:
            raise BadVerdict("judge", "tokens below 0", "write 0 or more")

    def read_tokens(self, question_tokens: Ints, answer_tokens: Ints) -> Ints:
        """Tokens read for each verdict; both arrays have one entry a verdict."""
        text = question_tokens + answer_tokens
        if self.reads_max is not None:
            text = np.minimum(text, self.reads_max)
        return np.asarray(self.prompt_tokens + text, dtype=np.int64)

    def usd(
        self,
        question_tokens: Ints,
        answer_tokens: Ints,
        usd_per_million_input_tokens: float,
        usd_per_million_output_tokens: float,
    ) -> float:
        """Price of all these verdicts together."""
        read = int(self.read_tokens(question_tokens, answer_tokens).sum())
        written = self.output_tokens * len(question_tokens)
        return (read * usd_per_million_input_tokens + written * usd_per_million_output_tokens) / 1e6


def judge_load(kind: Kind) -> JudgeLoad:
    """The load of each kind of judge. Certainty comes with the answer's own logprobs: nothing is read."""
    return {
        "llm": JudgeLoad("llm", PROMPT_TOKENS, OUTPUT_TOKENS),
        "embedding": JudgeLoad("embedding", 0, 0, reads_max=EMBEDDING_TOKENS_MAX),
        "certainty": JudgeLoad("certainty", 0, 0, reads_max=0),
    }[kind]
