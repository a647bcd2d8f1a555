"""Lengths counted in logarithmic bins, so that histograms of parts add up and quantiles need no data.

Bin i holds the lengths in (g^(i-1), g^i] with g = (1 + a)/(1 - a): every quantile is right to a relative
error a (DDSketch; Masson, Rim, Lee, VLDB 2019, section 2). Below 1/(2a) = 100 tokens that rounds to the very
length.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from cascadia_traces.checks import LONGEST_TOKENS, Floats, Ints

RELATIVE_ERROR = 0.005
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_BINS = int(log(LONGEST_TOKENS) / log(_GROWTH)) + 2


@dataclass(frozen=True, slots=True, eq=False)
class LengthHistogram:
    """`counts` (one a bin) with the exact sums of the lengths and of their squares, and the extremes."""

    counts: Ints
    total: float
    total_squares: float
    smallest: int
    largest: int

    @staticmethod
    def empty() -> "LengthHistogram":
        return LengthHistogram(np.zeros(_BINS, dtype=np.int64), 0.0, 0.0, LONGEST_TOKENS, 1)

    @staticmethod
    def of(tokens: Ints) -> "LengthHistogram":
        """Histogram of lengths (n >= 1), each from 1 to LONGEST_TOKENS."""
        real = tokens.astype(np.float64)
        bins = np.ceil(np.log(real) / log(_GROWTH)).astype(np.int64)
        counts = np.bincount(bins, minlength=_BINS)
        return LengthHistogram(
            counts, float(real.sum()), float((real * real).sum()), int(tokens.min()), int(tokens.max())
        )

    def __add__(self, other: "LengthHistogram") -> "LengthHistogram":
        return LengthHistogram(
            self.counts + other.counts,
            self.total + other.total,
            self.total_squares + other.total_squares,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return self.total / len(self)

    @property
    def cv(self) -> float:
        """Coefficient of variation, exact up to rounding."""
        variance = max(self.total_squares / len(self) - self.mean**2, 0.0)
        return sqrt(variance) / self.mean

    def quantile(self, share: float) -> int:
        """The lowest length that at least `share` of the requests don't exceed (numpy's `inverted_cdf`)."""
        rank = np.clip(np.ceil(share * len(self)), 1, len(self))
        bin_ = int(np.searchsorted(np.cumsum(self.counts), rank))
        middle = 2 * _GROWTH**bin_ / (_GROWTH + 1)
        return int(np.clip(round(middle), self.smallest, self.largest))

    def density(self, bars: int = 60) -> tuple[Floats, Floats]:
        """Density for a plot: edges (k + 1) in tokens, equal on a log scale, and shares of requests (k <=
        bars).
        """
        first, last = (int(bin_) for bin_ in np.flatnonzero(self.counts)[[0, -1]])
        step = max(-(-(last - first + 1) // bars), 1)
        starts = np.arange(first, last + 1, step)
        shares = np.add.reduceat(self.counts, starts)
        edges = _GROWTH ** (np.append(starts, starts[-1] + step) - 1.0)
        return edges, shares / len(self)
