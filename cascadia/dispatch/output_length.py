"""Length that the next answer of a stage is likely to have, given how much it has to read.

How long an answer will be is not known when its replica is chosen, and how much it reads tells more of it than one
would think: an application sends prompts of a length of its own and wants answers of another. So the latest answers are
cut into cells of as many each by what they read, and each cell tells its mean and a high quantile.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from cascadia.dispatch.answer_length import FIRST_ANSWER_TOKENS

KEPT = 2048
"""The latest answers, which all is told from."""
CELLS = 16
FEWEST = 24
"""Answers a cell: a mean of fewer says less than the cut gains."""
TOLD_ANEW = 256
"""Answers between two cuts."""
HIGH = 0.9


class Expected(NamedTuple):
    """Tokens of an answer: on average, and nine times in ten at most."""

    mean: float
    high: float


class Largest(NamedTuple):
    """A large request: what it reads, and what it writes."""

    tokens: int
    output_tokens: float


@dataclass(slots=True)
class OutputLength:
    """`cells` at most. Before anything is seen, `FIRST_ANSWER_TOKENS` are expected.

    >>> length = OutputLength()
    >>> for _ in range(64): length.seen(100, 20); length.seen(1000, 400)
    >>> length.expected(90).mean, length.expected(900).mean, length.expected(900, most=50).mean
    (20.0, 400.0, 50)
    """

    cells: int = CELLS
    _latest: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=KEPT))
    _new: int = 0
    _cuts: list[int] = field(default_factory=list)
    _told: list[Expected] = field(
        default_factory=lambda: [Expected(FIRST_ANSWER_TOKENS, FIRST_ANSWER_TOKENS)]
    )

    def expected(self, tokens: int, most: int | None = None) -> Expected:
        """Answer to a prompt of `tokens`, which has at most `most` of its own."""
        told = self._told[bisect_left(self._cuts, tokens)]
        if most is not None and told[1] > most:
            return Expected(min(told[0], most), most)
        return told

    @property
    def largest(self) -> Largest:
        """The request with the longest answers that is often seen; of those with equal ones the one that reads most."""
        at = max(range(len(self._told)), key=lambda i: (self._told[i].mean, i))
        cuts = self._cuts
        return Largest(cuts[min(at, len(cuts) - 1)] if cuts else FIRST_ANSWER_TOKENS, self._told[at].mean)

    def seen(self, tokens: int, output_tokens: int) -> None:
        """An answer to a prompt of `tokens` had so many."""
        self._latest.append((tokens, output_tokens))
        self._new += 1
        # At first each answer may be news; later a cut of them all is worth its while now and then.
        if self._new >= min(TOLD_ANEW, len(self._latest) // 4):
            self._new = 0
            self._cut()

    def _cut(self) -> None:
        latest = sorted(self._latest)
        count = max(1, min(self.cells, len(latest) // FEWEST))
        edges = [k * len(latest) // count for k in range(count + 1)]
        self._cuts = [latest[edge - 1][0] for edge in edges[1:-1]]
        self._told = [_of([wrote for _, wrote in latest[first:end]]) for first, end in pairwise(edges)]


def _of(wrote: list[int]) -> Expected:
    wrote.sort()
    return Expected(sum(wrote) / len(wrote), wrote[int(HIGH * (len(wrote) - 1))])
