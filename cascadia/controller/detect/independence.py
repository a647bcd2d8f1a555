"""Test of what a plan's bound on quality takes for granted: that questions are as hard under load as without.

A gear is a rank of the load. Shadow evaluations score all stages' answers to a question, whatever gear answered: their
mean says how hard it is. Both change slowly: of neighbours in time one says little beside the other. So what is held
against the covariance of gear and rank of score are those of the same series with one turned against the other, by
every lag: each keeps its own course, and what they have in common is gone. The p-value is the share of lags at which
there is as much.
"""

from dataclasses import dataclass

import numpy as np

from cascadia.domain.workload import Floats, Ints

FEWEST = 100
"""Shadow evaluations; with fewer nothing is said."""
FEWEST_ELSEWHERE = 10
"""Of these, outside of the gear that most are in."""
SURE = 0.01
"""At less the two are taken to be dependent."""


@dataclass(frozen=True, slots=True)
class Independence:
    """`p` (0-1]: the chance of as much in common, were load and difficulty independent. `points`: by how much the
    stages' mean score is higher in the heaviest gear than in all others."""

    looks: int
    gears: int
    p: float
    points: float

    def __str__(self) -> str:
        found = f"p = {self.p:.2g}, {self.looks} shadow evaluations in {self.gears} gears"
        if self.p >= SURE:
            return f"load and difficulty look independent: {found}"
        harder = "harder" if self.points > 0 else "easier"
        return (
            f"questions are {harder} in light gears, by {abs(self.points):.1f} points of score: {found}; the bound on"
            " the quality of all requests takes them for alike"
        )


def independence(gear: Ints, score: Floats) -> Independence | None:
    """`gear` and mean `score` of shadow evaluations (n), in order of time; None where they are too few to tell."""
    numbers, counts = np.unique(gear, return_counts=True)
    if len(gear) < FEWEST or len(gear) - int(counts.max()) < FEWEST_ELSEWHERE:
        return None
    ranks = _ranks(score)
    in_common = np.abs(_turned(gear - gear.mean(), ranks - ranks.mean()))
    heaviest = gear == numbers[0]
    return Independence(
        len(gear),
        len(numbers),
        # Rounding must not leave out the order as it was, which is one of those counted: p is never 0 so.
        float((in_common >= in_common[0] * (1 - 1e-9)).mean()),
        float(score[heaviest].mean() - score[~heaviest].mean()),
    )


def _ranks(score: Floats) -> Floats:
    """Mean ranks: ties are alike."""
    _, of, counts = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[of]
    return ranks


def _turned(one: Floats, other: Floats) -> Floats:
    """Covariances (n, times n) of `one` with `other` turned by each lag, none first."""
    # By Fourier's transform: n log n for all n turns at once.
    found: Floats = np.fft.irfft(np.fft.rfft(one) * np.conj(np.fft.rfft(other)), len(one))
    return found
