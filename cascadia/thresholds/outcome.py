"""Cost and worth of thresholds on answers that every stage gave: a shadow evaluation's, or a quality table's.

Given scores, qualities and tokens (S, m) and the prices of each stage, a prompt goes from stage to stage until
its score reaches the threshold; it pays for each stage that it asked. Intervals are of 95 %, of means over prompts;
differences are of pairs, so that what two settings share cancels out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia.domain.quality import Floats, QualityTable
from cascadia.router.settings.model import TokenCost

Z_95 = 1.96


class Estimate(NamedTuple):
    """A mean, and half of its interval of 95 %."""

    mean: float
    margin: float


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Arrays of each prompt (m): `cost` of all stages that it asked, `quality` of its answer. `answered` (S): the
    share of prompts that each stage answers."""

    cost: Floats
    quality: Floats
    answered: Floats


def outcome(table: QualityTable, thresholds: Sequence[float], prices: Sequence[TokenCost]) -> Outcome:
    """Outcome under `thresholds` of all stages but the last; `prices` (S)."""
    stages, prompts = table.score.shape
    cost, quality = np.zeros(prompts), np.zeros(prompts)
    answered = np.zeros(stages)
    waiting = np.ones(prompts, dtype=np.bool_)
    for at in range(stages):
        cost += waiting * _paid(table, at, prices[at])
        accepted = waiting if at == stages - 1 else waiting & (table.score[at] >= thresholds[at])
        quality[accepted] = table.quality[at][accepted]
        answered[at] = accepted.mean()
        waiting = waiting & ~accepted
    return Outcome(cost, quality, answered)


def largest_alone(table: QualityTable, prices: Sequence[TokenCost]) -> Outcome:
    """Outcome where the last stage answers all, and no other is asked."""
    answered = np.zeros(len(table.stages))
    answered[-1] = 1.0
    return Outcome(_paid(table, -1, prices[-1]), table.quality[-1].copy(), answered)


def _paid(table: QualityTable, stage: int, price: TokenCost) -> Floats:
    read, wrote = price
    paid: Floats = read * table.input_tokens[stage] + wrote * table.output_tokens[stage]
    return paid


def estimate(values: Floats) -> Estimate:
    """Mean of `values` (m)."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.inf
    return Estimate(float(values.mean()), Z_95 * spread / math.sqrt(len(values)))
