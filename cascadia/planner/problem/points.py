"""Quality tables with points: rows of a stage's exits beside those of the stage itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.domain.points import Exit, Points
from cascadia.domain.quality import QualityTable
from cascadia.planner.account.exits import folded_as_planned
from cascadia.planner.problem.quality_file import read_quality


@dataclass(frozen=True, slots=True)
class Named:
    """A stage of a spec or of a plan, as its table names it and its exits."""

    name: str
    exits: tuple[Exit, ...]


def read_points(
    path: Path, stages: Sequence[Named], scale: float | None, note: Callable[[str], None]
) -> tuple[QualityTable, Points | None]:
    """The table of the stages themselves, and with the rows of all points; None where no stage has an exit. Raises
    `BadInput` as `read_quality` does, for points as well.
    """
    rows = [(at, exit_) for at, stage in enumerate(stages) for exit_ in (*stage.exits, None)]
    names = tuple(stages[at].name if exit_ is None else exit_.row(stages[at].name) for at, exit_ in rows)
    table = read_quality(path, names, scale=scale, note=note)
    whole = [row for row, (_, exit_) in enumerate(rows) if exit_ is None]
    if len(whole) == len(rows):
        return table, None
    trial = np.zeros(table.output_tokens.shape)
    for row, (_, exit_) in enumerate(rows):
        if exit_ is not None:
            trial[row] = np.maximum(table.output_tokens[row] - exit_.thinking_tokens, 0.0)
    points = Points(replace(table, foreseen=None), tuple(at for at, _ in rows), trial)
    return _of_rows(table, whole), points


def _of_rows(table: QualityTable, rows: list[int]) -> QualityTable:
    return replace(
        table,
        stages=tuple(table.stages[row] for row in rows),
        score=table.score[rows],
        quality=table.quality[rows],
        input_tokens=table.input_tokens[rows],
        output_tokens=table.output_tokens[rows],
        foreseen=None if table.foreseen is None else table.foreseen[rows],
    )


def read_as_planned(
    plan: Plan, path: Path, scale: float | None, note: Callable[[str], None] = lambda _: None
) -> QualityTable:
    """Table of a plan's stages, each answer and length as its exits leave it."""
    stages = [Named(s.name, tuple(Exit(each.thinking_tokens) for each in s.exits)) for s in plan.stages]
    table, points = read_points(path, stages, scale, note)
    return table if points is None else folded_as_planned(plan, points)
