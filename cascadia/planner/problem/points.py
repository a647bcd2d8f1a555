"""Quality tables with points: rows of a stage's exits beside those of the stage itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan, asking
from cascadia.domain.points import Exit, Points
from cascadia.domain.quality import QualityTable
from cascadia.planner.account.exits import folded_as_planned
from cascadia.planner.problem.foresight import with_foresight
from cascadia.planner.problem.quality_file import read_quality


@dataclass(frozen=True, slots=True)
class Named:
    """A stage of a spec or of a plan, as its table names it and its exits."""

    name: str
    exits: tuple[Exit, ...]
    by_question: bool = False

    @property
    def asks(self) -> tuple[int, ...]:
        """Exits of which the question alone decides something: all are budgets, or who has a trial there."""
        return asking([each.foreseen for each in self.exits], budgets=self.by_question)


def read_points(
    path: Path,
    stages: Sequence[Named],
    scale: float | None,
    note: Callable[[str], None],
    foresight: Path | None = None,
) -> tuple[QualityTable, Points | None]:
    """The table of the stages themselves, and with the rows of all points; None where no stage has an exit. Raises
    `BadInput` as `read_quality` does, for points as well, and where the question alone decides about some and neither
    the table's column `foreseen` nor the file `foresight` knows them.
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
    if any(stage.asks for stage in stages):
        points = _with_foreseen(points, table, stages, path, foresight)
    return _of_rows(table, whole), points


def _with_foreseen(
    points: Points, table: QualityTable, stages: Sequence[Named], path: Path, foresight: Path | None
) -> Points:
    """`points` whose budgets are scored by what is foreseen, 100 less the points that thinking on adds; and who has a
    trial where an exit wants so much of that.
    """
    score, trial, budgets, tried = table.score.copy(), points.trial_tokens.copy(), list[int](), {}
    for at, stage in enumerate(stages):
        rows = list(points.rows(at))
        for n in stage.asks:
            row, least = rows[n], stage.exits[n].foreseen
            foreseen = _of_rows(table, [row, rows[-1]])
            if foresight is not None:
                foreseen, _ = with_foresight(foreseen, foresight)
            if foreseen.foreseen is None:
                raise BadInput(
                    str(path),
                    f"has no column foreseen, by which exits of stage {stage.name!r} are chosen",
                    "write it: cascadia judge train TABLE --prompts PROMPTS --foresight --out FILE --table TABLE; or"
                    " name FILE: quality.foresight in a spec, --foresight beside a plan",
                )
            within, to_the_end = foreseen.foreseen
            promised = 100.0 - np.maximum(0.0, to_the_end - within)
            if least is None:
                score[row], trial[row] = promised, 0.0
                budgets.append(row)
            else:
                tried[row] = promised >= least
                score[row] = np.where(tried[row], score[row], 0.0)
    return replace(
        points,
        table=replace(points.table, score=score),
        trial_tokens=trial,
        budgets=tuple(budgets),
        tried=tried,
    )


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
    plan: Plan,
    path: Path,
    scale: float | None,
    note: Callable[[str], None] = lambda _: None,
    foresight: Path | None = None,
) -> QualityTable:
    """Table of a plan's stages, each answer and length as its exits leave it. `foresight`: the file that the plan was
    made with, where the table has no column of its own.
    """
    stages = [
        Named(
            s.name,
            tuple(Exit(each.thinking_tokens, each.foreseen) for each in s.exits),
            s.budget_field is not None,
        )
        for s in plan.stages
    ]
    table, points = read_points(path, stages, scale, note, foresight)
    if foresight is None:
        return table if points is None else folded_as_planned(plan, points)
    table, told = with_foresight(table, foresight)
    if plan.foresight is None or plan.foresight.digest != told.digest:
        note(f"{foresight.name} is not the foresight that the plan was made with")
    return table if points is None else folded_as_planned(plan, points)
