"""Extent to which a plan breaks its bounds on today's traffic: what planning anew compares where no plan keeps them."""

from typing import NamedTuple

from cascadia.domain.objective import Objective
from cascadia.domain.plan import Predicted

GROWS, LEAST = 0.05, 1e-6


class Misses(NamedTuple):
    """Shares (0-1) by which each bound is broken, 0 where it is kept; the largest says how bad that is.

    `quality`: wrong answers (points short of 100) beyond those that may be, as a share of those. `latency`: requests
    beyond a service level, over those that may be. `load`: what is sent to the busiest stage and never served, at least
    `GROWS` where a queue grows although each stage has room on average.
    """

    quality: float = 0.0
    latency: float = 0.0
    load: float = 0.0

    @property
    def most(self) -> float:
        return max(self)

    def __str__(self) -> str:
        name, share = max(self._asdict().items(), key=lambda item: float(item[1]))
        return f"breaks its bounds: {name} by {100 * share:.0f} %"


def misses(predicted: Predicted, objective: Objective, *, holds: bool) -> Misses:
    """Misses of `objective` by `predicted`. `holds`: the traffic is carried for as long as it goes on."""
    late = [level for level in predicted.levels if level.reached_s > level.max_s]
    # By the mean, not by the lower bound that a plan is chosen by: the plan in force met that when it was made, and on
    # the fewer scores seen since a plan as good as ever would seem to miss it for want of samples.
    quality = missed_quality(predicted.quality.mean, objective.quality_min)
    latency = max((max(level.quantile - level.attained, LEAST) for level in late), default=0.0)
    return Misses(quality, latency, 0.0 if holds else _unserved(predicted))


def missed_quality(mean: float, least: float | None) -> float:
    """Share of wrong answers too many; a mean of NaN (requests without scores) is not known to miss any."""
    if least is None or not mean < least:
        return 0.0
    return min(1.0, (least - mean) / max(100.0 - least, 1.0))


def _unserved(predicted: Predicted) -> float:
    every = (*predicted.stages, *([predicted.judge] if predicted.judge is not None else []))
    busiest = max([1.0, *(stage.load for stage in every if stage.load)])
    return max(GROWS, 1.0 - 1.0 / busiest)
