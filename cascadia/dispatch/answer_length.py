"""Length that the next answer of a stage is likely to have: as long as its last ones were on average.

What a request will cost is not known when its replica is chosen. Its limit (`max_tokens`) is a bound that most answers
stay far below, so requests with a generous limit would count for much more than they are.
"""

from dataclasses import dataclass

FIRST_ANSWER_TOKENS = 256
"""Expected of the first."""
ANSWERS_KEPT = 1024
"""At so many, half of what is known is forgotten: a thousand answers tell a mean, and what is asked changes."""


@dataclass(slots=True)
class AnswerLength:
    """`tokens` written by so many `answers`, all but the last few hundred of which fade."""

    tokens: int = FIRST_ANSWER_TOKENS
    answers: int = 1

    def expected(self, most: int | None = None) -> int:
        """Tokens of the next answer, which has at most `most` of them."""
        if self.answers >= ANSWERS_KEPT:
            self.tokens //= 2
            self.answers //= 2
        mean = self.tokens // self.answers
        return mean if most is None or mean < most else most

    def seen(self, tokens: int) -> None:
        """An answer had so many."""
        self.tokens += tokens
        self.answers += 1
