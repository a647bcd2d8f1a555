"""Burstiness of arrivals: counts in windows of one width, and the rate over time."""

from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np

from cascadia_traces.checks import Floats, Ints

SERIES_BINS = 512
FINEST_BIN_S = 1 / 64


@dataclass(frozen=True, slots=True)
class Burstiness:
    """Statistics of the counts in whole windows of `window_s`. A Poisson process has an index of dispersion of
    1.
    """

    window_s: float
    peak_to_mean: float
    index_of_dispersion: float


@dataclass(slots=True)
class WindowCounts:
    """Counts in windows from time 0 on: their sums, never the windows. The last window is incomplete."""

    window_s: float
    last: int = 0
    last_count: int = 0
    total: float = 0.0
    squares: float = 0.0
    peak: int = 0

    def add(self, since_start_s: Floats) -> None:
        """Takes the next arrivals (n), in order."""
        window = np.floor(since_start_s / self.window_s).astype(np.int64)
        starts = np.flatnonzero(np.diff(window, prepend=-1))
        counts = np.diff(starts, append=len(window))
        seen = window[starts]
        if seen[0] == self.last:
            counts[0] += self.last_count
        else:
            counts, seen = np.append(self.last_count, counts), np.append(self.last, seen)
        closed = counts[:-1].astype(np.float64)
        self.total += float(closed.sum())
        self.squares += float((closed * closed).sum())
        self.peak = max(self.peak, int(closed.max(initial=0)))
        self.last, self.last_count = int(seen[-1]), int(counts[-1])

    def burstiness(self) -> Burstiness | None:
        """Burstiness so far; None where fewer than two windows are complete, or nothing came in them."""
        if self.last < 2 or self.total == 0:
            return None
        mean = self.total / self.last
        variance = max(self.squares / self.last - mean**2, 0.0)
        return Burstiness(self.window_s, self.peak / mean, variance / mean)


@dataclass(slots=True)
class RateSeries:
    """Counts over time in at most SERIES_BINS bins; a bin doubles whenever time outgrows them."""

    bin_s: float = FINEST_BIN_S
    counts: Ints = field(default_factory=lambda: np.zeros(SERIES_BINS, dtype=np.int64))
    end_s: float = 0.0

    def add(self, since_start_s: Floats) -> None:
        """Takes the next arrivals (n), in order."""
        self.end_s = float(since_start_s[-1])
        if self.end_s >= self.bin_s * SERIES_BINS:
            doublings = max(ceil(log2((self.end_s + self.bin_s) / (self.bin_s * SERIES_BINS))), 1)
            self._coarsen(1 << doublings)
        bins = np.minimum((since_start_s / self.bin_s).astype(np.int64), SERIES_BINS - 1)
        self.counts += np.bincount(bins, minlength=SERIES_BINS)

    def rates(self) -> tuple[Floats, Floats]:
        """Middles of the bins in seconds (k) and the requests/s in each (k); the last covers what it has."""
        used = min(int(self.end_s / self.bin_s) + 1, SERIES_BINS)
        starts_s = np.arange(used) * self.bin_s
        widths_s = np.clip(self.end_s - starts_s, self.bin_s / 2, self.bin_s)
        rates_rps = np.asarray(self.counts[:used] / widths_s, dtype=np.float64)
        return np.asarray(starts_s + self.bin_s / 2, dtype=np.float64), rates_rps

    def _coarsen(self, factor: int) -> None:
        starts = np.arange(0, SERIES_BINS, factor)
        merged = np.add.reduceat(self.counts, starts)
        self.counts = np.zeros(SERIES_BINS, dtype=np.int64)
        self.counts[: len(merged)] = merged
        self.bin_s *= factor
