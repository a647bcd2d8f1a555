"""Other questions like the quality table's, asked by the same requests: the table drawn again, with replacement.

The table's questions are a sample, so the share of requests that goes on to a larger model is known only as well as
that tells, and of routings that are alike the one that looks lightest is chosen. This is the bootstrap of that share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats, Ints
from cascadia.planner.routing.routings import Routings, decisions

DRAWS = 200
QUESTIONS = 20_000_000
"""At most so many are drawn in all: of a table of more than 100,000 fewer draws tell as much."""
SEED = 4
"""Beside the problem's own: the streams before it are verdicts', guesses' and coins'."""


@dataclass(frozen=True, eq=False)
class OtherQuestions:
    """`known` (k): rows of the table that are drawn; `place` (n): of each request's row among them; `asked` (k): how
    many requests have it.
    """

    seed: int
    known: Ints
    place: Ints
    asked: Ints

    @staticmethod
    def of(problem: Problem) -> "OtherQuestions":
        w, m = problem.workload, len(problem.quality)
        # Lengths that are the table's are known of those questions only that are asked.
        known = np.unique(w.row) if w.told_by_table else np.arange(m)
        asked = np.bincount(w.row, minlength=m)[known]
        return OtherQuestions(problem.seed, known, np.searchsorted(known, w.row), asked)

    @property
    def draws(self) -> int:
        return int(np.clip(QUESTIONS // len(self.known), 20, DRAWS))

    def rows(self, draw: int) -> Ints:
        """Rows (n) that the requests ask in a draw."""
        return self.known[self._drawn(draw)[self.place]]

    def means(self, of_each: Floats) -> Floats:
        """Means (..., draws) over the requests, of what each of the table's questions (..., m) has."""
        each, k = of_each[..., self.known], len(self.known)
        drawn = (np.bincount(self._drawn(at), weights=self.asked, minlength=k) for at in range(self.draws))
        return np.stack([each @ times / len(self.place) for times in drawn], axis=-1)

    def _drawn(self, draw: int) -> Ints:
        k = len(self.known)
        return np.random.default_rng((self.seed, SEED, draw)).integers(k, size=k)


def visits_of(problem: Problem, routings: Routings, parts: Sequence[tuple[float, int]]) -> Floats:
    """Mean visits of each stage by each of the table's questions (S, m). Shares of the requests go by routings: `parts`
    are (share, routing).
    """
    found = np.zeros((len(problem.stages), len(problem.quality)))
    for share, k in parts:
        other = 0.0 if routings.mixed is None else float(routings.mixed.share[k])
        found += share * (1.0 - other) * decisions(problem.quality, routings, k).reached
        if routings.mixed is not None and other > 0.0:
            found += share * other * decisions(problem.quality, routings.mixed.other, k).reached
    return found


def alike(problem: Problem, visits: Floats) -> bool:
    """Tells whether it does not matter what is asked: all questions take the same way. Who is drawn as evidence of
    exits is drawn by question, so there nothing is told of others.
    """
    return problem.workload.drawn is not None or not bool((visits != visits[:, :1]).any())
