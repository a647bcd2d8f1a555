"""Wrong answers to be dressed up: questions, what a small model said, and how sure its engine was.

Certainties are of the size that SmolLM2-135M's are; the same before and after an attempt, so that words
alone are compared.
"""

from typing import NamedTuple

from cascadia_judge.scores.certainty import Certainty


class Wrong(NamedTuple):
    question: str
    answer: str
    certainty: Certainty


def _sure(mean_logprob: float, tokens: int, margin: float) -> Certainty:
    return Certainty(mean_logprob * tokens, mean_logprob, 2.2 * mean_logprob, margin, tokens)


WRONG = (
    Wrong("What is 70 + 6?", "12", _sure(-1.1, 3, 0.3)),
    Wrong("What is the capital of Australia?", "The capital of Australia is Sydney", _sure(-0.2, 8, 0.8)),
    Wrong("Which number is smaller: 148 or 95?", "148", _sure(-0.5, 3, 0.6)),
    Wrong('What is the opposite of "hot"?', "warm and sunny", _sure(-0.9, 4, 0.4)),
    Wrong("How many legs do three spiders have?", "Three spiders have 18 legs in total", _sure(-0.4, 9, 0.7)),
    Wrong("If today is Monday, what day is in three days?", "Friday", _sure(-0.7, 2, 0.5)),
)
