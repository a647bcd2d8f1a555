"""Calibration of a judge's score to the quality that it stands for.

Problem: given n pairs (score, quality), find the non-decreasing f of least squared error sum (f(score) -
quality)^2. The pool-adjacent-violators algorithm solves it exactly in O(n log n) (Ayer et al. 1955; Barlow et
al. 1972, theorem 1.1): start with one block a score, and while a block's mean exceeds its successor's, join
them.

Fit on questions other than those that the calibration is judged on: on its own the fit is flattered.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A non-decreasing map. `score` (k) ascends strictly, `quality` (k) does not descend.

    Linear between the points, constant beyond the first and the last.
    """

    score: Floats
    quality: Floats

    def __call__(self, score: Floats) -> Floats:
        return np.asarray(np.interp(score, self.score, self.quality), dtype=np.float64)


class Bin(NamedTuple):
    """One row of a reliability table: means over the pairs in it."""

    pairs: int
    score: float
    quality: float


def calibrate(score: Floats, quality: Floats) -> Calibration:
    """The isotonic fit of `quality` (n) to `score` (n)."""
    _check(score, quality)
    levels, at = np.unique(score, return_inverse=True)
    weight = np.bincount(at).astype(np.float64)
    mean = np.bincount(at, weights=quality) / weight
    return Calibration(levels, _pooled(mean, weight))


def smoothed(score: Floats, quality: Floats) -> Calibration:
    """The isotonic fit, with each of its flat pieces drawn to its middle and straight lines between the
    middles.

    Centred isotonic regression (Oron and Flournoy 2017): no fit is worse where the truth ascends strictly,
    and scores that differ keep differing, so that a threshold can lie between them.
    """
    fit = calibrate(score, quality)
    _, at = np.unique(fit.quality, return_inverse=True)
    piece = at[np.searchsorted(fit.score, score)]
    count = np.bincount(piece)
    return Calibration(np.bincount(piece, weights=score) / count, np.bincount(piece, weights=quality) / count)


def _pooled(mean: Floats, weight: Floats) -> Floats:
    """Pool adjacent violators: non-decreasing values of least weighted squared distance to `mean`."""
    value: list[float] = []
    mass: list[float] = []
    size: list[int] = []
    for m, w in zip(mean.tolist(), weight.tolist(), strict=True):
        value.append(m)
        mass.append(w)
        size.append(1)
        while len(value) > 1 and value[-2] >= value[-1]:
            total = mass[-2] + mass[-1]
            joined = (value[-2] * mass[-2] + value[-1] * mass[-1]) / total
            value[-2:], mass[-2:], size[-2:] = [joined], [total], [size[-2] + size[-1]]
    return np.repeat(np.array(value), size)


def reliability(score: Floats, quality: Floats, bins: int = 10) -> tuple[Bin, ...]:
    """Mean score and mean quality in at most `bins` bins of about equal counts; equal scores stay
    together."""
    _check(score, quality)
    if bins < 1:
        raise BadVerdict("bins", f"{bins} is too few", "write 1 or more")
    _, at, counts = np.unique(score, return_inverse=True, return_counts=True)
    # A level goes to the bin that the middle of its pairs falls into.
    middle = np.cumsum(counts) - counts / 2
    bin_of = (middle * bins / len(score)).astype(np.int64)[at]
    rows = (bin_of == b for b in np.unique(bin_of))
    return tuple(Bin(int(r.sum()), float(score[r].mean()), float(quality[r].mean())) for r in rows)


def calibration_error(table: tuple[Bin, ...]) -> float:
    """Expected calibration error: mean distance of score and quality over the bins, weighted by count.

    >>> calibration_error((Bin(3, 80.0, 60.0), Bin(1, 20.0, 20.0)))
    15.0
    """
    total = sum(row.pairs for row in table)
    return sum(row.pairs * abs(row.score - row.quality) for row in table) / total


def _check(score: Floats, quality: Floats) -> None:
    if score.ndim != 1 or score.shape != quality.shape or len(score) == 0:
        raise BadVerdict(
            "calibration", "scores and qualities do not pair up", "give two arrays of one length"
        )
    for name, values in (("score", score), ("quality", quality)):
        bad = ~((values >= 0.0) & (values <= 100.0))
        if bad.any():
            at = int(bad.argmax())
            raise BadVerdict(f"calibration row {at + 1}", f"{name} is {values[at]:g}", "write 0-100")
