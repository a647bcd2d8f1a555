"""Result of one pass over the questions, with the limits that so few questions allow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from cascadia.demo.measuring.asking import Answer


class Share(NamedTuple):
    """`value` 0-1 with its 95 % confidence limits."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Pass:
    """One way of answering. `engine_s`: processor seconds that engines and judge spent on it, by name."""

    name: str
    answers: tuple[Answer, ...]
    engine_s: dict[str, float]

    @property
    def accuracy(self) -> Share:
        return wilson(sum(answer.right for answer in self.answers), len(self.answers))

    @property
    def engine_s_per_question(self) -> float:
        return sum(self.engine_s.values()) / len(self.answers)

    @property
    def tokens(self) -> tuple[float, float]:
        """Read and written a question, by all stages asked."""
        count = len(self.answers)
        return (
            sum(answer.total_tokens[0] for answer in self.answers) / count,
            sum(answer.total_tokens[1] for answer in self.answers) / count,
        )

    def quantile_s(self, share: float) -> float:
        """Quantile of the seconds to the whole answer; the smallest that at least `share` of the answers kept."""
        ordered = sorted(answer.seconds for answer in self.answers)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    def answered_by(self, stage: str) -> float:
        return sum(answer.stage == stage for answer in self.answers) / len(self.answers)


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Share:
    """Wilson's score interval (1927), which holds for few trials and for shares near 0 and 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, z2 = successes / trials, z * z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return Share(share, max(0.0, middle - half), min(1.0, middle + half))


class Paired(NamedTuple):
    """`gain` of one over the other in accuracy; `by_luck`: the chance of at least this gain were they equally good."""

    gain: float
    won: int
    lost: int
    by_luck: float


def paired(one: Sequence[Answer], other: Sequence[Answer]) -> Paired:
    """Comparison on the same questions; McNemar's exact test (one-sided): of those where they differ, either
    wins half.
    """
    won = sum(a.right and not b.right for a, b in zip(one, other, strict=True))
    lost = sum(b.right and not a.right for a, b in zip(one, other, strict=True))
    differ = won + lost
    by_luck = sum(math.comb(differ, k) for k in range(won, differ + 1)) / 2**differ
    return Paired((won - lost) / len(one), won, lost, by_luck)
