"""`cascadia judge train --foresight`: heads that tell of the question alone, and what they foresaw out of fold."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cascadia.cli.judge.common import encoder_digest, encoder_folder_of, quality_table, rows_of
from cascadia.cli.judge.train_outputs import heads_table, told
from cascadia.cli.shared.output import Output, write
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.domain.quality import QualityTable
    from cascadia_judge.head.training import Course


def train_foresight(
    source: Path,
    prompts_file: Path | None,
    out: Path,
    *,
    table_file: Path | None,
    stages: Sequence[str],
    course: "Course",
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """`source` holds graded answers, or with `prompts_file` it is a quality table."""
    from cascadia.planner.problem.quality_file import write_quality
    from cascadia_judge import foresight
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.head.file import dump

    table, questions = (
        _of_answers(source, stages, output)
        if prompts_file is None
        else _of_table(source, prompts_file, stages)
    )
    folder = encoder_folder_of(encoder_folder, output)
    encoder = Encoder.read(folder)
    with output.progress(f"reading {len(table):,} questions") as step:
        heads, foreseen = foresight.learn(
            encoder,
            questions,
            table.prompt_ids,
            stages=table.stages,
            quality=table.quality,
            course=course,
            told=step,
        )
    about = {
        "questions": len(table),
        "stages": list(table.stages),
        "encoder": encoder_digest(folder),
        "folds": course.folds,
        "seed": course.seed,
    }
    out.write_text(dump(heads, about, {foresight.KEY: foresight.written(foreseen)}), encoding="utf-8")
    if table_file is not None:
        write_quality(replace(table, foreseen=foreseen.values), table_file)
    shown = [told(head) for head in heads]
    output.document({"judge": str(out), "about": about, "heads": shown})
    output.show(heads_table(shown, f"{len(table):,} questions, {len(table.stages)} stages"))
    if not output.json and not output.quiet:
        write(f"wrote {out}" + (f" and {table_file}" if table_file else ""))


def _of_answers(source: Path, stages: Sequence[str], output: Output) -> "tuple[QualityTable, list[str]]":
    rows = rows_of(source, stages)
    nothing = np.full(len(rows), np.nan)
    table = quality_table(rows, np.array([row.quality for row in rows]), nothing, output.note)
    question = {row.prompt_id: row.question for row in rows}
    return table, [question[prompt] for prompt in table.prompt_ids]


def _of_table(source: Path, prompts_file: Path, stages: Sequence[str]) -> "tuple[QualityTable, list[str]]":
    from cascadia.planner.problem.quality_file import REQUIRED, read_quality
    from cascadia.planner.problem.quality_format import read_arrow
    from cascadia.profile.quality.prompts import read_prompts

    named = [str(name) for name in read_arrow(source, REQUIRED).column("stage").unique().to_pylist()]
    table = read_quality(source, tuple(stages or named))
    question = {prompt.id: prompt.question for prompt in read_prompts(prompts_file, None)}
    missing = [prompt for prompt in table.prompt_ids if prompt not in question]
    if missing:
        raise BadInput(
            str(prompts_file),
            f"has no text of {len(missing):,} of the table's {len(table):,} prompts (e.g. {missing[0][:40]!r})",
            "give the prompts that the table was measured with",
        )
    return table, [question[prompt] for prompt in table.prompt_ids]
