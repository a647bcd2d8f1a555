"""Points of a stage: where it may answer before all its work is done. An exit is a stage that shares the work before
it: going on costs the difference, escalating starts over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cascadia.domain.quality import Bools, Floats, QualityTable


@dataclass(frozen=True, slots=True)
class Exit:
    """Point of a thinking model, after so many tokens of its thinking: there it writes its answer, and scores it.

    `foreseen`: only where the question alone promises as much (0-100, 100 less the points that thinking on adds); None:
    always.
    """

    thinking_tokens: int
    foreseen: float | None = None

    def row(self, stage: str) -> str:
        """Name of its rows in the quality table."""
        return f"{stage}@{self.thinking_tokens}"


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Quality table whose rows are points (P, m): each stage's exits, in order, then the stage itself.

    `stage` (P) is the stage of each. `trial_tokens` (P, m) are written at an exit for nothing by who goes on there.
    `budgets` are exits that the question alone decides about: their score is what is foreseen, nobody writes a trial
    there, and who leaves is not judged. `tried` (m, by exit): who has a trial, where the question alone decides that.
    The score of who has none is 0, below every level.
    """

    table: QualityTable
    stage: tuple[int, ...]
    trial_tokens: Floats
    budgets: tuple[int, ...] = ()
    tried: Mapping[int, Bools] = field(default_factory=dict)

    def tries(self, row: int) -> Bools:
        """Whether each prompt (m) has a trial at an exit, should it come there."""
        return self.tried.get(row, np.ones(len(self.table), np.bool_))

    def rows(self, stage: int) -> tuple[int, ...]:
        """Points of `stage`, itself the last."""
        return tuple(at for at, own in enumerate(self.stage) if own == stage)

    @property
    def stages(self) -> int:
        return self.stage[-1] + 1

    @property
    def exits(self) -> tuple[int, ...]:
        """Points that are no stage's end."""
        return tuple(at for stage in range(self.stages) for at in self.rows(stage)[:-1])
