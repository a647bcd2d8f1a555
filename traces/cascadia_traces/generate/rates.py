"""Course of a request rate over time: constant, by day and night, in steps, on and off."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput

DIURNAL_PIECES = 288
"""Pieces a period: five minutes of a day."""

SOJOURNS = 1024
"""On and off pairs drawn at a time."""


class Pieces(NamedTuple):
    """Consecutive stretches of constant rate: how long (k) and at which rate (k)."""

    duration_s: Floats
    rate_rps: Floats


class Rate(Protocol):
    """A rate from time 0 on."""

    def pieces(self, rng: np.random.Generator) -> Iterator[Pieces]:
        """Pieces without end, or of infinite duration. The same generator state gives the same pieces."""


@dataclass(frozen=True, slots=True)
class Constant:
    rate_rps: float

    def __post_init__(self) -> None:
        positive("rate_rps", self.rate_rps)

    def pieces(self, rng: np.random.Generator) -> Iterator[Pieces]:  # noqa: ARG002
        yield Pieces(np.array([np.inf]), np.array([self.rate_rps]))


@dataclass(frozen=True, slots=True)
class Diurnal:
    """rate(t) = rate_rps (1 - amplitude cos(2 pi t / period_s)): it starts at the trough."""

    rate_rps: float
    amplitude: float = 0.5
    period_s: float = 86_400.0

    def __post_init__(self) -> None:
        positive("rate_rps", self.rate_rps)
        positive("period_s", self.period_s)
        share("amplitude", self.amplitude)

    def pieces(self, rng: np.random.Generator) -> Iterator[Pieces]:  # noqa: ARG002
        edges = np.linspace(0.0, 1.0, DIURNAL_PIECES + 1)
        # The mean of each piece, by integrating, so that a period holds rate_rps * period_s exactly.
        requests = edges - self.amplitude * np.sin(2 * np.pi * edges) / (2 * np.pi)
        rates = self.rate_rps * np.maximum(np.diff(requests) * DIURNAL_PIECES, 0.0)
        while True:
            yield Pieces(np.full(DIURNAL_PIECES, self.period_s / DIURNAL_PIECES), rates)


@dataclass(frozen=True, slots=True)
class Steps:
    """Stretches of (duration_s, rate_rps), one after the other and then from the first again."""

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        for duration_s, rate_rps in self.steps:
            positive("a step's duration", duration_s)
            if not 0 <= rate_rps < np.inf:
                raise BadInput("steps", f"{rate_rps:g} is not a rate", "write a finite number from 0 on")
        if not any(rate_rps > 0 for _, rate_rps in self.steps):
            raise BadInput("steps", "no step has a rate above 0", "write DURATION_S:RATE_RPS, as in 60:5")

    def pieces(self, rng: np.random.Generator) -> Iterator[Pieces]:  # noqa: ARG002
        duration_s, rate_rps = np.tile(
            np.array(self.steps, dtype=np.float64), (SOJOURNS // len(self.steps) + 1, 1)
        ).T
        while True:
            yield Pieces(duration_s, rate_rps)


@dataclass(frozen=True, slots=True)
class OnOff:
    """Bursts: on for an exponential time of mean `on_s`, off for one of mean `off_s`, `rate_rps` on average.

    While off, the rate is `off_share` of that while on: 0 is silence, 1 no bursts at all. A Markov-modulated
    Poisson process of two states; it starts in its stationary state.
    """

    rate_rps: float
    on_s: float = 30.0
    off_s: float = 90.0
    off_share: float = 0.0

    def __post_init__(self) -> None:
        positive("rate_rps", self.rate_rps)
        positive("on_s", self.on_s)
        positive("off_s", self.off_s)
        share("off_share", self.off_share)

    @property
    def on_rate_rps(self) -> float:
        return self.rate_rps * (self.on_s + self.off_s) / (self.on_s + self.off_share * self.off_s)

    def pieces(self, rng: np.random.Generator) -> Iterator[Pieces]:
        means_s = np.array([self.on_s, self.off_s])
        rates = np.array([self.on_rate_rps, self.on_rate_rps * self.off_share])
        if rng.random() >= self.on_s / (self.on_s + self.off_s):
            means_s, rates = means_s[::-1], rates[::-1]
        while True:
            duration_s = rng.standard_exponential((SOJOURNS, 2)) * means_s
            yield Pieces(duration_s.ravel(), np.tile(rates, SOJOURNS))


def positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise BadInput(name, f"{value:g} is out of range", "write a finite number above 0")


def share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise BadInput(name, f"{value:g} is out of range", "write a number from 0 to 1")
