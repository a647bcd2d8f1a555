"""Objective that the user wants optimised, and its bounds."""

from dataclasses import dataclass
from typing import Literal

WITHIN = 0.03
"""Of the goal `latency`, where nothing else is asked for."""

Goal = Literal["latency", "quality", "cost"]
GearRule = Literal["whole-trace", "each-level"]
"""Of which requests enough are to be in time: of all, or of those that come at each level of load."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Minimise latency or cost, or maximise quality.

    `quantile` is of the end-to-end latency (0.95 = p95) and applies to the goal `latency` as well as to
    `latency_max_s`. `quality_min` (0-100) holds for the lower confidence bound of quality. `within` (0-1) is of the
    goal `latency`: of the plans that are no more than this share slower than the fastest found, the cheapest is taken.
    """

    goal: Goal
    quantile: float = 0.95
    quality_min: float | None = None
    latency_max_s: float | None = None
    within: float = WITHIN


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
