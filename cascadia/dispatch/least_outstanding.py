"""Power of two choices: of two replicas drawn at random, the one with less work in hand for its share.

Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (2001): the longest queue grows with log log n
instead of log n, and no two routers herd onto the same idle replica. Work is counted in tokens, since one request may
be a thousand times another, and divided by the planned share, since replicas of a stage may be of unequal shapes.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cascadia.dispatch.candidate import Candidate


@dataclass(slots=True)
class LeastOutstanding:
    """`chance` gives numbers in [0, 1)."""

    chance: Callable[[], float] = random.random

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:  # noqa: ARG002
        n = len(candidates)
        if n == 1:
            return 0
        i = int(self.chance() * n)
        j = int(self.chance() * (n - 1))
        j += j >= i
        return i if _after(candidates[i], tokens) <= _after(candidates[j], tokens) else j


def _after(candidate: Candidate, tokens: int) -> float:
    """Its load for its share, were it given the request: so the larger of two idle replicas comes first."""
    return (candidate.outstanding_tokens + tokens) / candidate.weight
