"""Recent shadow evaluations as numbers, from which the page reckons what another threshold would do."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

MOST = 500

Evaluation = dict[str, tuple[float, int]]
"""By stage: the score of its answer, and the tokens that it read and wrote."""


class Evaluations:
    """The latest, without ids and texts."""

    def __init__(self) -> None:
        self._kept: deque[Evaluation] = deque(maxlen=MOST)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds one evaluation: a row a stage."""
        self._kept.append(
            {row["stage"]: (row["score"], row["input_tokens"] + row["output_tokens"]) for row in rows}
        )

    def of(self, stages: Iterable[str]) -> list[list[tuple[float, int]]]:
        """Those that know all of these stages, in their order."""
        names = list(stages)
        return [[one[name] for name in names] for one in self._kept if all(name in one for name in names)]
