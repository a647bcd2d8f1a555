"""Objective that the user wants optimised, and its bounds."""

from dataclasses import dataclass
from typing import Literal

WITHIN = 0.03
"""Of the goal `latency`, where nothing else is asked for."""

Goal = Literal["latency", "quality", "cost"]


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


def bar_meant(bar: float) -> float | None:
    """Bar that `bar` (0-100) was meant to be where it is a fraction by mistake: 78 for 0.78. None for other
    bars.
    """
    return round(100 * bar, 6) if 0 < bar <= 1 else None
