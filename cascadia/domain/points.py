"""Points of a stage: where it may answer before all its work is done. An exit is a stage that shares the work before
it: going on costs the difference, escalating starts over.
"""

from dataclasses import dataclass

from cascadia.domain.quality import Floats, QualityTable


@dataclass(frozen=True, slots=True)
class Exit:
    """Point of a thinking model, after so many tokens of its thinking: there it writes its answer, and scores it."""

    thinking_tokens: int

    def row(self, stage: str) -> str:
        """Name of its rows in the quality table."""
        return f"{stage}@{self.thinking_tokens}"


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Quality table whose rows are points (P, m): each stage's exits, in order, then the stage itself.

    `stage` (P) is the stage of each. `trial_tokens` (P, m) are written at an exit for nothing by who goes on there.
    `budgets` are exits that the question alone decides about: their score is what is foreseen, nobody writes a trial
    there, and who leaves is not judged.
    """

    table: QualityTable
    stage: tuple[int, ...]
    trial_tokens: Floats
    budgets: tuple[int, ...] = ()

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
