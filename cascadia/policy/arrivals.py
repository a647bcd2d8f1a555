"""Laws of how many requests arrive in a time: P[N(t) >= k].

Only Poisson arrivals come one by one with independent increments, as RAMSIS section 4.4.2 asks. Of others it is told
when the count begins: just after an arrival, where a burst goes on, or at any moment, where the next may be long in
coming. Beyond that their increments are taken as independent.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import gammainc, gammaln

from cascadia.domain.workload import Floats

GRID = 96
"""Lengths of time at which a trace's counts are taken; between them they are interpolated."""
STARTS = 2000
"""Windows of each length that a trace's counts are taken from."""


class Arrivals(Protocol):
    """Arrivals at the whole group, `rate_rps` a second in the mean."""

    @property
    def rate_rps(self) -> float: ...

    def at_least(self, times_s: Floats, most: int, *, after: bool) -> Floats:
        """P[N(t) >= k] of each of the times (n), for k = 0 to `most`: (n, most + 1); `after` an arrival, or from any
        moment on."""
        ...

    def at(self, rate_rps: float) -> "Arrivals":
        """The same law at another mean rate."""
        ...


@dataclass(frozen=True, slots=True)
class Poisson:
    """Gaps between arrivals are exponential."""

    rate_rps: float

    def at_least(self, times_s: Floats, most: int, *, after: bool) -> Floats:  # noqa: ARG002
        """The protocol's probability: the sum of the terms below k taken from 1. When it begins is all the same."""
        k = np.arange(most)
        mean = np.maximum(np.asarray(times_s, np.float64) * self.rate_rps, 1e-300)[:, None]
        below = np.cumsum(np.exp(k * np.log(mean) - mean - gammaln(k + 1)), axis=1)
        return np.concatenate([np.ones((len(times_s), 1)), np.clip(1 - below, 0, 1)], axis=1)

    def at(self, rate_rps: float) -> "Poisson":
        return Poisson(rate_rps)


@dataclass(frozen=True, slots=True)
class GammaGaps:
    """Gaps between arrivals have a gamma distribution of this `shape`: 1 is Poisson, below 1 comes in bursts."""

    rate_rps: float
    shape: float

    def at_least(self, times_s: Floats, most: int, *, after: bool) -> Floats:
        """The protocol's probability. After an arrival, k more take k gaps, whose sum is gamma of k times the shape.
        From any moment on the k-th comes within t with the chance rate * integral over t of
        P[N = k - 1 after an arrival]."""
        k = np.arange(1, most + 1)
        times_s = np.asarray(times_s, np.float64)[:, None]
        scaled = times_s * (self.rate_rps * self.shape)
        sooner: Floats = gammainc(self.shape * k, scaled)
        if not after:
            integral = times_s * sooner - k / self.rate_rps * gammainc(self.shape * k + 1, scaled)
            integral = np.concatenate([times_s, integral], axis=1)
            sooner = np.clip(-np.diff(integral, axis=1) * self.rate_rps, 0, 1)
        return np.concatenate([np.ones((len(times_s), 1)), sooner], axis=1)

    def at(self, rate_rps: float) -> "GammaGaps":
        return GammaGaps(rate_rps, self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """Counts as in a trace's own windows, its times stretched to the rate. `arrival_s` (n) does not decrease."""

    arrival_s: Floats
    rate_rps: float
    _stretch: float = field(init=False)

    def __post_init__(self) -> None:
        lasts = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self.arrival_s) else 0.0
        if lasts <= 0:
            raise ValueError("a trace needs at least two arrivals, at different times")
        object.__setattr__(self, "_stretch", (len(self.arrival_s) - 1) / lasts / self.rate_rps)

    def at_least(self, times_s: Floats, most: int, *, after: bool) -> Floats:
        """The protocol's probability: shares of windows that begin at evenly spread arrivals, or moments."""
        times_s = np.asarray(times_s, np.float64)
        grid = np.linspace(0.0, max(float(times_s.max(initial=0.0)), 1e-9), GRID)
        at = np.linspace(0, len(self.arrival_s) - 1, min(STARTS, len(self.arrival_s))).astype(np.int64)
        begin = self.arrival_s[at]
        if not after:
            begin = np.linspace(begin[0], begin[-1], len(at))
        come = np.searchsorted(self.arrival_s, begin, side="right")
        table = np.empty((GRID, most + 1))
        for i, length_s in enumerate(grid):
            end = begin + length_s / self._stretch
            inside = end <= self.arrival_s[-1]
            if not inside.any():
                raise ValueError(f"the trace is shorter than the {length_s:g} s that a policy looks at")
            counts = np.searchsorted(self.arrival_s, end[inside], side="right") - come[inside]
            share = np.bincount(np.clip(counts, 0, most), minlength=most + 1) / inside.sum()
            table[i] = np.cumsum(share[::-1])[::-1]
        place = np.clip(times_s / grid[1], 0, GRID - 1)
        low = np.minimum(place.astype(np.int64), GRID - 2)
        part = (place - low)[:, None]
        between: Floats = (1 - part) * table[low] + part * table[low + 1]
        return between

    def at(self, rate_rps: float) -> "Empirical":
        return Empirical(self.arrival_s, rate_rps)
