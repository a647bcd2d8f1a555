"""Lengths of requests: a distribution for the input and one for the output, and how they hang together.

Each distribution is a function of a standard normal score; the two scores of a request are correlated, which
is a Gaussian copula: any two distributions, any strength. With two lognormals the correlation is that of the
logarithms of the lengths.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np

from cascadia_traces.checks import LONGEST_TOKENS, Floats, Ints
from cascadia_traces.errors import BadInput
from cascadia_traces.generate.rates import positive
from cascadia_traces.trace import Trace

LARGEST_ZIPF = 1 << 22
"""Tokens: the table of a Zipf distribution has as many entries."""


class Drawn(NamedTuple):
    """Lengths of n requests."""

    input_tokens: Ints
    output_tokens: Ints


class Lengths(Protocol):
    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        """The next `rows` requests; two draws in a row give what one of their sum would."""


class Marginal(Protocol):
    def at(self, score: Floats) -> Ints:
        """The lengths, >= 1, at standard normal scores (n); non-decreasing."""


@dataclass(frozen=True, slots=True)
class Lognormal:
    """exp(N(log median, sigma^2)), rounded and clipped to 1 .. max_tokens."""

    median_tokens: float
    sigma: float
    max_tokens: int = 131_072

    def __post_init__(self) -> None:
        positive("median_tokens", self.median_tokens)
        _max_tokens(self.max_tokens, LONGEST_TOKENS)
        if not 0 <= self.sigma <= 20:
            raise BadInput("sigma", f"{self.sigma:g} is out of range", "write a number from 0 to 20")

    def at(self, score: Floats) -> Ints:
        tokens = np.exp(log(self.median_tokens) + self.sigma * score)
        return np.clip(np.rint(tokens), 1, self.max_tokens).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Zipf:
    """P(k) proportional to k^-exponent for k = 1 .. max_tokens."""

    exponent: float
    max_tokens: int = 8192

    def __post_init__(self) -> None:
        positive("exponent", self.exponent)
        _max_tokens(self.max_tokens, LARGEST_ZIPF)

    def at(self, score: Floats) -> Ints:
        below = _zipf_table(self.exponent, self.max_tokens)
        rank = np.searchsorted(below, _normal_cdf(score), side="right")
        return np.minimum(rank + 1, self.max_tokens).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """The lengths seen (n, in any order), each as likely as the others."""

    tokens: Ints

    def at(self, score: Floats) -> Ints:
        rank = np.minimum((_normal_cdf(score) * len(self.tokens)).astype(np.int64), len(self.tokens) - 1)
        return np.asarray(np.sort(self.tokens)[rank], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Correlated:
    """Input and output lengths whose normal scores have the given `correlation`; 0 is independence."""

    input: Marginal
    output: Marginal
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if not -1 <= self.correlation <= 1:
            raise BadInput("correlation", f"{self.correlation:g} is out of range", "write -1 to 1")

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        first, second = rng.standard_normal((rows, 2)).T
        mixed = self.correlation * first + sqrt(1 - self.correlation**2) * second
        return Drawn(self.input.at(first), self.output.at(mixed))


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Requests drawn from a trace with replacement, input and output together."""

    trace: Trace

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        # Not rng.integers: that buffers half words, so its draws depend on how they are cut.
        row = (rng.random(rows) * len(self.trace)).astype(np.int64)
        return Drawn(self.trace.input_tokens[row], self.trace.output_tokens[row])


@lru_cache(maxsize=8)
def _zipf_table(exponent: float, max_tokens: int) -> Floats:
    weights = np.arange(1, max_tokens + 1, dtype=np.float64) ** -exponent
    return np.asarray(np.cumsum(weights) / weights.sum(), dtype=np.float64)


def _normal_cdf(score: Floats) -> Floats:
    """The standard normal distribution function, linear between points 1/256 apart: right to 5e-7."""
    points, values = _normal_table()
    return np.asarray(np.interp(score, points, values), dtype=np.float64)


@lru_cache(maxsize=1)
def _normal_table() -> tuple[Floats, Floats]:
    points = np.arange(-9 * 256, 9 * 256 + 1) / 256
    normal = NormalDist()
    return points, np.array([normal.cdf(point) for point in points])


def _max_tokens(value: int, largest: int) -> None:
    if not 1 <= value <= largest:
        raise BadInput("max_tokens", f"{value} is out of range", f"write a number from 1 to {largest}")
