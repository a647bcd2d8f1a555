"""Objective that the user wants optimised, and its bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

WITHIN = 0.03
"""Of the goal `latency`, where nothing else is asked for."""

Goal = Literal["latency", "quality", "cost", "rate"]
GearRule = Literal["whole-trace", "each-level"]
"""Of which requests enough are to be in time: of all, or of those that come at each level of load."""

Metric = Literal["ttft", "tpot", "e2e"]
"""Time to the first token, time per output token after it, and time to the whole answer: each as the client sees it."""


@dataclass(frozen=True, slots=True)
class Level:
    """Service level: at least a share `quantile` (0-1) of the requests has `metric` within `max_s`.

    A client whose answer is held until its verdict gets it all at once: its TTFT is when the verdict is there, and its
    TPOT is 0. So is that of an answer of one token, as in vLLM's goodput.
    """

    metric: Metric
    quantile: float
    max_s: float

    @property
    def name(self) -> str:
        """`TTFT p95`."""
        metric = "end to end" if self.metric == "e2e" else self.metric.upper()
        return f"{metric} p{100 * self.quantile:g}"

    def __str__(self) -> str:
        return f"{self.name} <= {self.max_s:g} s"


@dataclass(frozen=True, slots=True)
class Objective:
    """Minimise latency or cost, or maximise quality, or the rate at which the trace is played.

    `quantile` is of the end-to-end latency (0.95 = p95) and applies to the goal `latency` as well as to
    `latency_max_s`. `quality_min` (0-100) holds for the lower confidence bound of quality. `within` (0-1) is of the
    goal `latency`: of the plans that are no more than this share slower than the fastest found, the cheapest is taken.
    `levels` are kept beside `latency_max_s`, whatever the goal.
    """

    goal: Goal
    quantile: float = 0.95
    quality_min: float | None = None
    latency_max_s: float | None = None
    within: float = WITHIN
    levels: tuple[Level, ...] = ()

    @property
    def bounds(self) -> tuple[Level, ...]:
        """All levels to keep: `latency_max_s` as one, then `levels`."""
        own = () if self.latency_max_s is None else (Level("e2e", self.quantile, self.latency_max_s),)
        return (*own, *self.levels)

    @property
    def deadline(self) -> Level | None:
        """Level after which a request is late: the first of the bounds that is end to end."""
        return next((level for level in self.bounds if level.metric == "e2e"), None)

    def times(self, share: float) -> "Objective":
        """The same with each bound on latency so many times as long."""
        own = None if self.latency_max_s is None else share * self.latency_max_s
        levels = tuple(replace(level, max_s=share * level.max_s) for level in self.levels)
        return replace(self, latency_max_s=own, levels=levels)

    def strain(self, latency_s: float, levels_s: Sequence[float]) -> float:
        """Largest ratio of what is reached to its bound (1: just kept; 0: nothing is bounded).

        `latency_s` is of `quantile`, `levels_s` of each of `levels`.
        """
        own = () if self.latency_max_s is None else (latency_s / self.latency_max_s,)
        return max(
            [*own, *(s / level.max_s for s, level in zip(levels_s, self.levels, strict=True))], default=0.0
        )


GEARS = 8
"""Settings for rising load that a plan has at most, where latency is bounded and nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """Rules for what may give way where more comes than the plan's own setting carries.

    No gear's lower bound on quality is below `quality_floor` (0-100; None: the objective's `quality_min`, which holds
    for all requests together in any case). `then`: what beyond the lightest gear still does not fit waits, or is
    refused.
    """

    quality_floor: float | None = None
    then: Literal["queue", "refuse"] = "queue"


def bar_meant(bar: float) -> float | None:
    """Bar that `bar` (0-100) was meant to be where it is a fraction by mistake: 78 for 0.78. None for other
    bars.

    >>> bar_meant(0.78), bar_meant(78.0)
    (78.0, None)
    """
    return round(100 * bar, 6) if 0 < bar <= 1 else None


def bar_of_a_hundred(bar: float | None) -> float | None:
    """The bar. Raises ValueError for a fraction."""
    if bar is not None and (meant := bar_meant(bar)) is not None:
        raise ValueError(f"is {bar:g} of 100, which any model reaches; did you mean {meant:g}?")
    return bar
