"""Arrival times: renewal gaps run through a clock that goes as fast as the request rate.

Gaps are Gamma with mean 1 and coefficient of variation `cv` in operational time; inverting the cumulative
rate turns that into seconds (time rescaling; Cox & Lewis 1966). With cv = 1 and a constant rate this is a
Poisson process; with cv = 1 and a changing rate, an inhomogeneous one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput
from cascadia_traces.generate.rates import Constant, Pieces, Rate

LARGEST_CV = 100.0
"""Beyond it Gamma gaps underflow to zero and the trace is one stampede."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrival times: the `rate` over time, and the gaps' coefficient of variation were the rate constant."""

    rate: Rate
    cv: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.cv <= LARGEST_CV:
            raise BadInput("cv", f"{self.cv:g} is out of range", f"write a number from 0 to {LARGEST_CV:g}")

    def times(self, rng: np.random.Generator, rows: int) -> Iterator[Floats]:
        """Chunks of `rows` arrival times in seconds without end; how they are cut does not change them."""
        gap_rng, rate_rng = rng.spawn(2)
        return _seconds(self._operational(gap_rng, rows), self.rate.pieces(rate_rng))

    def _operational(self, rng: np.random.Generator, rows: int) -> Iterator[Floats]:
        last = 0.0
        while True:
            gaps = np.ones(rows)
            if self.cv > 0:
                shape = self.cv**-2
                gaps = rng.standard_gamma(shape, rows) / shape
            # Added to the first gap, not to the sums: the same additions in the same order as in one piece.
            gaps[0] += last
            times = np.cumsum(gaps)
            last = float(times[-1])
            yield times


def poisson(rate_rps: float) -> Arrivals:
    return Arrivals(Constant(rate_rps))


def gamma(rate_rps: float, cv: float) -> Arrivals:
    return Arrivals(Constant(rate_rps), cv)


def _seconds(operational: Iterator[Floats], pieces: Iterator[Pieces]) -> Iterator[Floats]:
    """Instants at which the cumulative rate reaches each operational time.

    Piece i starts at `start_s[i]`, when the cumulative rate is `start[i]`; both have one entry more than
    `rate`.
    """
    start_s, start, rate = np.zeros(1), np.zeros(1), np.zeros(0)
    for times in operational:
        ends_s, ends, rates = [start_s], [start], [rate]
        while ends[-1][-1] <= times[-1]:
            more = next(pieces)
            ends_s.append(_summed(ends_s[-1][-1], more.duration_s))
            ends.append(_summed(ends[-1][-1], more.duration_s * more.rate_rps))
            rates.append(more.rate_rps)
        start_s, start, rate = np.concatenate(ends_s), np.concatenate(ends), np.concatenate(rates)
        # From the right: of pieces that start together, all but the last have rate 0.
        piece = np.searchsorted(start, times, side="right") - 1
        yield np.minimum(start_s[piece] + (times - start[piece]) / rate[piece], start_s[piece + 1])
        done = piece[-1]
        start_s, start, rate = start_s[done:], start[done:], rate[done:]


def _summed(origin: float, steps: Floats) -> Floats:
    return np.cumsum(np.append(origin, steps))[1:]
