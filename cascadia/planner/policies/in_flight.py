"""A ladder by the requests in flight on one central queue: no estimate of the load is needed.

Few in flight: each is served by the most accurate model. The more there are, the faster a model; within a rung a
request with little slack goes to a faster one. The rungs' borders are found by simulation: one after the other is moved
to where the reward is the most, as long as that helps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascadia.domain.policy import Policies, Policy
from cascadia.domain.workload import Floats
from cascadia.planner.policies.played import Outcome, play
from cascadia.planner.policies.tables import Group, by_slack, largest_batches

FACTORS = (0.5, 0.7, 0.85, 0.93, 1.07, 1.15, 1.4, 2.0)
"""What a border is multiplied with to see whether another place is better."""
PASSES = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """Streams of arrivals to choose on, with the share of each in the verdict; the first `skip` are not counted."""

    arrival_s: tuple[Floats, ...]
    weight: tuple[float, ...]
    skip: int = 0


def worth(
    outcomes: Sequence[Outcome], weight: Sequence[float], late_max: float, right_min: float = 0.0
) -> float:
    """Reward in the mean, less what is late beyond `late_max`, which counts ten times an answer, and what is missing to
    the accuracy `right_min` (0-100), which counts as much."""
    each = [
        o.reward - 1000 * max(o.late - late_max, 0.0) - 10 * max(right_min - o.accuracy, 0.0)
        for o in outcomes
    ]
    return float(np.average(each, weights=list(weight)))


def rungs(group: Group, borders: Sequence[float], caps: Sequence[int], share: float) -> Policies:
    """The ladder with model m (least accurate first) for up to `borders[m]` in flight, batches of at most `caps[m]`."""
    levels = []
    # No rung is without the model that carries most, or nothing would end a jam.
    most = max(range(len(caps)), key=lambda m: group.models[m].throughput_rps(group.slo_s))
    for m in range(len(group.models) - 1, -1, -1):
        up_to, among = borders[m] if m else np.inf, max(m, most) + 1
        levels.append((up_to, by_slack(group.models[:among], caps[:among], share)))
    top = group.workers * max(caps) * 64.0
    rising: list[Policy] = []
    for up_to, rows in levels:
        level = Policy(float(min(up_to, top)), rows)
        if rising and level.up_to <= rising[-1].up_to:
            continue
        rising.append(level)
    return group.policies(rising, "in-flight", index="in_flight")


def first_borders(group: Group, caps: Sequence[int]) -> list[float]:
    """Requests in flight with all workers at three quarters of the model's largest batch: about what it carries."""
    return [group.workers * max(1.0, 0.75 * cap) for cap in caps]


def in_flight_ladder(
    group: Group,
    sample: Sample,
    late_max: float = 0.01,
    batch_share: float = 0.5,
    share: float = 1.0,
    *,
    right_min: float = 0.0,
) -> Policies:
    """The best borders found."""
    caps = largest_batches(group.models, group.slo_s, batch_share)

    def tried(borders: Sequence[float]) -> float:
        ladder = rungs(group, borders, caps, share)
        played = [play(ladder, group.models, arrival_s, skip=sample.skip) for arrival_s in sample.arrival_s]
        return worth(played, sample.weight, late_max, right_min)

    borders = first_borders(group, caps)
    best = tried(borders)
    for _ in range(PASSES):
        before = best
        for m in range(1, len(borders)):
            for factor in FACTORS:
                moved = [*borders[:m], borders[m] * factor, *borders[m + 1 :]]
                value = tried(moved)
                if value > best:
                    best, borders = value, moved
        if best <= before + 1e-3:
            break
    return rungs(group, borders, caps, share)
