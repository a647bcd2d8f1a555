"""Sampled requests cut into windows of equal length, and what of each window is watched.

Watched are, per window: how many requests came; the means of log input and log output tokens (lengths are heavy-tailed,
their logarithms are not); and, for each stage that was scored, mean and spread of the scores.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from cascadia.domain.workload import Floats, Ints

RATE, INPUT, OUTPUT = "rate", "input length", "output length"
COUNTED = "rate as counted"
"""By the routers themselves; the log's is known later."""
DIGITS = 9
FEWEST_SCORES = 2
"""In a window, for there to be a spread."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """n requests by arrival. `arrival_s` is Unix time; `scores` (n, by stage) is NaN where a stage was not scored.

    `came_s`: when requests came, answered or not, in order; None where the log does not tell. `e2e_s` and `ttft_s` [n],
    as clients saw them: infinite where there was no answer. `gear` [n]: the number of each one's gear, -1 where none is
    told. `ratio` (0-1]: the share of all requests that was sampled.
    """

    arrival_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    _: KW_ONLY
    scores: Mapping[str, Floats] = field(default_factory=dict)
    ratio: float = 1.0
    came_s: Floats | None = None
    e2e_s: Floats | None = None
    ttft_s: Floats | None = None
    gear: Ints | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def arrivals_s(self) -> Floats:
        """Arrival times of all that are known to have come."""
        return self.arrival_s if self.came_s is None else self.came_s

    def between(self, from_s: float, until_s: float) -> "Samples":
        """Samples that arrived in [from_s, until_s)."""
        first, stop = np.searchsorted(self.arrival_s, (from_s, until_s))
        part = slice(int(first), int(stop))
        came_s = self.came_s
        if came_s is not None:
            came_s = came_s[slice(*np.searchsorted(came_s, (from_s, until_s)).tolist())]
        return Samples(
            self.arrival_s[part],
            self.input_tokens[part],
            self.output_tokens[part],
            scores={stage: values[part] for stage, values in self.scores.items()},
            ratio=self.ratio,
            came_s=came_s,
            e2e_s=None if self.e2e_s is None else self.e2e_s[part],
            ttft_s=None if self.ttft_s is None else self.ttft_s[part],
            gear=None if self.gear is None else self.gear[part],
        )


@dataclass(frozen=True, slots=True)
class Window:
    """`values`: by what is watched; what no request told is absent. `start_s` and `end_s` are Unix time."""

    start_s: float
    end_s: float
    values: Mapping[str, float]


def windows(samples: Samples, from_s: float, until_s: float, window_s: float) -> Iterator[Window]:
    """All whole windows from `from_s` on that end by `until_s`, those without requests as well."""
    count = int((until_s - from_s) / window_s + 1e-9)
    samples = samples.between(from_s, until_s)
    starts_s = from_s + window_s * np.arange(count + 1)
    edges = np.searchsorted(samples.arrival_s, starts_s)
    came = np.diff(np.searchsorted(samples.arrivals_s, starts_s))
    log_in = np.log(np.maximum(samples.input_tokens, 1))
    log_out = np.log(np.maximum(samples.output_tokens, 1))
    for i in range(count):
        part = slice(int(edges[i]), int(edges[i + 1]))
        values = {RATE: float(came[i]) / window_s / samples.ratio}
        if part.stop > part.start:
            # A mean of equal values differs in its last digits by how many they are, and ranks would see that.
            values[INPUT] = round(float(log_in[part].mean()), DIGITS)
            values[OUTPUT] = round(float(log_out[part].mean()), DIGITS)
        for stage, scores in samples.scores.items():
            told = scores[part]
            told = told[np.isfinite(told)]
            if len(told) >= FEWEST_SCORES:
                values[score_of(stage)] = float(told.mean())
                values[spread_of(stage)] = float(told.std())
        yield Window(float(starts_s[i]), float(starts_s[i + 1]), values)


def score_of(stage: str) -> str:
    return f"score of {stage}"


def spread_of(stage: str) -> str:
    return f"spread of {stage}'s scores"


def shown(name: str, value: float) -> str:
    """`value` in the unit that a reader knows: tokens instead of their logarithm."""
    if name in (INPUT, OUTPUT):
        return f"{np.exp(value):.0f} tokens"
    return f"{value:.3g} req/s" if name in (RATE, COUNTED) else f"{value:.1f}"
