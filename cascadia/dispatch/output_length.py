"""Length that the next answer of a stage is likely to have, given how much it has to read.

How long an answer will be is not known when its replica is chosen, and how much it reads tells more of it than one
would think: an application sends prompts of a length of its own and wants answers of another. So the latest answers are
cut into cells of as many each by what they read, and each cell tells its mean and a high quantile.

Other applications' prompts tell nothing. So what would have been told of each answer just before it was there is kept
beside what it has, and choices go by lengths only once, and while, those explain enough of how answers differ.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
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
LEAST_EXPLAINED = 0.55
"""Of the variance of lengths. Below it replicas chosen by lengths may serve less than by work in hand: midway between
the most with which they did and the least with which they did not (docs/models/unequal.md)."""
LONGEST = 4.0
"""Answers that nine in ten do not pass: longer ones count for no more. Now and then a model repeats itself until it is
cut off, which no prompt tells, and one such answer would outweigh the variance of all others."""
ALIKE = 0.25
"""Of the mean: lengths that are told as well as this differ too little for it to matter."""
ENOUGH_TOLD = 128
"""Answers whose lengths were told, before which no judgement is made of it, and choices do not go by lengths."""


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
    explained: float = 0.0
    """Share of the variance of the latest answers' lengths that was told before they were there; 0 before any was."""
    tells: bool = False
    """Whether that is enough for choices to go by it; not before it was judged."""
    _latest: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=KEPT))
    _outcomes: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT))
    _new: int = 0
    _longest: float = inf
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

    def seen(self, tokens: int, output_tokens: int, most: int | None = None) -> None:
        """An answer to a prompt of `tokens`, which had at most `most` of its own, had so many."""
        # With answers for half of the cells: what is expected before says little of prompts.
        if len(self._latest) >= FEWEST * self.cells // 2:
            self._outcomes.append((self.expected(tokens, most).mean, output_tokens))
        self._latest.append((tokens, output_tokens))
        self._new += 1
        # At first each answer may be news; later a cut of them all is worth its while now and then.
        if self._new >= min(TOLD_ANEW, len(self._latest) // 4):
            self._new = 0
            self._cut()
            self._judge()

    def _cut(self) -> None:
        latest = sorted(self._latest)
        self._longest = LONGEST * max(1.0, _of([wrote for _, wrote in latest]).high)
        edges = _edges([tokens for tokens, _ in latest], self.cells)
        self._cuts = [latest[edge - 1][0] for edge in edges[1:-1]]
        counted = [min(wrote, self._longest) for _, wrote in latest]
        self._told = [_of(counted[first:end]) for first, end in pairwise(edges)]

    def _judge(self) -> None:
        """Says how much of the latest lengths was told."""
        count = len(self._outcomes)
        if count < ENOUGH_TOLD:
            return
        outcomes = [(told, min(wrote, self._longest)) for told, wrote in self._outcomes]
        mean = sum(wrote for _, wrote in outcomes) / count
        variance = sum((wrote - mean) ** 2 for _, wrote in outcomes) / count
        missed = sum((wrote - told) ** 2 for told, wrote in outcomes) / count
        self.explained = 1 - missed / variance if variance else float(missed == 0)
        self.tells = missed <= max((1 - LEAST_EXPLAINED) * variance, (ALIKE * mean) ** 2)


def _edges(reads: list[int], cells: int) -> list[int]:
    """Edges of cells of sorted prompts: as many in each, but that prompts of one length share a cell."""
    n = len(reads)
    count = max(1, min(cells, n // FEWEST))
    edges = [0]
    for k in range(1, count):
        edge = bisect_right(reads, reads[k * n // count - 1])
        if edge - edges[-1] >= FEWEST <= n - edge:
            edges.append(edge)
    return [*edges, n]


def _of(wrote: list[float]) -> Expected:
    wrote.sort()
    return Expected(sum(wrote) / len(wrote), wrote[int(HIGH * (len(wrote) - 1))])
