"""Recent shadow evaluations as numbers, from which the page reckons what thresholds do and others would."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cascadia.router.settings.model import TokenCost

MOST = 500

Seen = tuple[float, int, int]
"""Score of a stage's answer, the tokens that it read, and those that it wrote."""
Evaluation = dict[str, Seen]
"""By stage."""


class Evaluations:
    """The latest, without ids and texts."""

    def __init__(self) -> None:
        self._kept: deque[Evaluation] = deque(maxlen=MOST)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds one evaluation: a row a stage."""
        self._kept.append(
            {row["stage"]: (row["score"], row["input_tokens"], row["output_tokens"]) for row in rows}
        )

    def of(self, stages: Iterable[str]) -> list[list[Seen]]:
        """Evaluations that know all of these stages, in their order."""
        names = list(stages)
        return [[one[name] for name in names] for one in self._kept if all(name in one for name in names)]


def against_largest(
    evaluations: Sequence[Sequence[Seen]],
    thresholds: Sequence[float | None],
    costs: Sequence[TokenCost | None],
) -> dict[str, Any] | None:
    """Spending and score of the cascade against its last stage alone, on requests that both answered, with margins of
    95 %; None of fewer than two. `saved` is a share, None where a cost is not known; `points` are of the judge's score.
    """
    number = len(evaluations)
    if number < 2:
        return None
    gained, spent, alone = [], [], []
    for stages in evaluations:
        last = len(stages) - 1
        at = next(
            (s for s in range(last) if stages[s][0] >= (0.0 if (h := thresholds[s]) is None else h)), last
        )
        gained.append(stages[at][0] - stages[last][0])
        spent.append(sum(_paid(costs[s], stages[s]) for s in range(at + 1)))
        alone.append(_paid(costs[last], stages[last]))
    points = sum(gained) / number
    found = {"number": number, "points": points, "points_margin": _margin([one - points for one in gained])}
    if any(cost is None for cost in costs) or not sum(alone):
        return {**found, "saved": None, "saved_margin": None}
    ratio = sum(spent) / sum(alone)
    # Of a ratio of means, by its linear part.
    off = [mine - ratio * other for mine, other in zip(spent, alone, strict=True)]
    return {**found, "saved": 1.0 - ratio, "saved_margin": _margin(off) * number / sum(alone)}


def _paid(cost: TokenCost | None, seen: Seen) -> float:
    return 0.0 if cost is None else cost[0] * seen[1] + cost[1] * seen[2]


def _margin(off: Sequence[float]) -> float:
    """Half of the interval of 95 % of a mean from which the values are `off`."""
    return 1.96 * math.sqrt(sum(one * one for one in off) / (len(off) - 1) / len(off))
