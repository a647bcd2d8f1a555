"""`cascadia judge train`: heads for the embedding judge, or a probe, from graded answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.judge.common import (
    encoder_digest,
    encoder_folder_of,
    encoder_option,
    quality_table,
    rows_of,
)
from cascadia.cli.judge.probe_engine import probe_engine, with_probe_engine
from cascadia.cli.judge.train_foresight import train_foresight
from cascadia.cli.judge.train_outputs import heads_table, told
from cascadia.cli.judge.train_probe import train_probe_file
from cascadia.cli.shared.options import Within, with_output, with_own_seed
from cascadia.cli.shared.output import Output, write
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia_judge.head.rows import Row


@click.command()
@click.argument("answers", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=Written(), help="File to write the judge to, one .json.")
@click.option(
    "--folds",
    type=click.IntRange(2, 50),
    default=5,
    show_default=True,
    help="Number of parts of the cross-validation.",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME",
    help="Stage whose answers are learned from; repeat it for more. Default: all.",
)
@click.option(
    "--decoys",
    type=Within(0, 5),
    default=0.0,
    show_default=True,
    help="Worthless answers to add per answer; as many to other questions, and as many that suit every "
    "question.",
)
@click.option(
    "--table",
    "table_file",
    type=Written(),
    help="File to write a quality table for `cascadia plan` to; it has each answer's score, and what "
    "the question alone promises, by folds that did not see it. Default: none.",
)
@click.option(
    "--foresight",
    is_flag=True,
    help="Learn how good each stage's answer will be from the question alone; for `quality.foresight` of a spec.",
)
@click.option(
    "--probe",
    is_flag=True,
    help="Learn from the hidden states of --engine, not from texts; it reads each question and answer again.",
)
@with_probe_engine("which wrote the answers, for --probe")
@click.option(
    "--prompts",
    "prompts_file",
    type=click.Path(path_type=Path),
    help="File with the prompts' texts, as for `profile quality`; needed where ANSWERS is a quality "
    "table for --foresight. Default: none.",
)
@with_own_seed
@encoder_option
@with_output
@ends_at_once
def train(
    answers: Path,
    out: Path,
    folds: int,
    stages: tuple[str, ...],
    decoys: float,
    table_file: Path | None,
    foresight: bool,
    probe: bool,
    engine_url: str | None,
    slot_folder: Path | None,
    prompts_file: Path | None,
    seed: int,
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """Train a judge on ANSWERS (JSON lines) and say by cross-validation how good it is.

    A line has `prompt_id`, `question` (text or messages), `stage`, `answer`, `quality` (0-100) and, where
    the engine gave log-probabilities, `certainty` with sum_logprob, mean_logprob, min_logprob, mean_margin
    and tokens.
    """
    from cascadia.files.atomic import atomic_write
    from cascadia.files.text import check_writable
    from cascadia.planner.problem.quality_file import write_quality
    from cascadia.planner.problem.quality_format import kind_of
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.head.file import dump
    from cascadia_judge.head.model_selection import see, see_nulls, teach
    from cascadia_judge.head.training import Course

    if prompts_file is not None and not foresight:
        raise BadInput("--prompts", "is of --foresight only", "answers name their questions themselves")
    _check_kind(foresight, probe, decoys, engine_url or slot_folder)
    if table_file is not None:
        kind_of(table_file)
    for path in (out, table_file):
        if path is not None:
            check_writable(path)
    if foresight:
        train_foresight(
            answers,
            prompts_file,
            out,
            table_file=table_file,
            stages=stages,
            course=Course(folds=folds, seed=seed),
            encoder_folder=encoder_folder,
            output=output,
        )
        return
    rows = rows_of(answers, stages)
    if probe:
        engine = probe_engine(engine_url, slot_folder)
        train_probe_file(rows, engine, out, table_file=table_file, folds=folds, seed=seed, output=output)
        return
    folder = encoder_folder_of(encoder_folder, output)
    encoder = Encoder.read(folder)
    with output.progress(f"reading {len(rows):,} answers") as step:
        seen = see(encoder, rows, step)
    with output.progress("learning") as step:
        nulls = see_nulls(encoder) if decoys else None
        taught = teach(rows, seen, Course(folds=folds, decoys=decoys, seed=seed, nulls=nulls), step)
    about = _about(rows, encoder_digest(folder), folds, decoys, seed)
    with atomic_write(out) as part:
        part.write_text(dump(taught.heads, about), encoding="utf-8")
    if table_file is not None:
        write_quality(quality_table(rows, taught.scores, taught.foreseen, output.note), table_file)
    heads = [told(head) for head in taught.heads]
    output.document({"judge": str(out), "about": about, "heads": heads})
    output.show(heads_table(heads, f"{len(rows):,} answers to {about['questions']:,} questions"))
    if not output.json and not output.quiet:
        write(f"wrote {out}" + (f" and {table_file}" if table_file else ""))


def _check_kind(foresight: bool, probe: bool, decoys: float, engine: str | Path | None) -> None:
    """Raises `BadInput` where options contradict each other."""
    if probe and (foresight or decoys):
        other = "--foresight" if foresight else "--decoys"
        raise BadInput(other, "is not of --probe", "leave one of the two out")
    if engine is not None and not probe:
        raise BadInput("--engine", "is of --probe only", "add --probe, or leave it out")


def _about(rows: "Sequence[Row]", encoder: str, folds: int, decoys: float, seed: int) -> dict[str, Any]:
    from collections import Counter

    return {
        "rows": len(rows),
        "questions": len({row.prompt_id for row in rows}),
        "stages": dict(Counter(row.stage for row in rows)),
        "with_certainty": sum(row.certainty is not None for row in rows),
        "encoder": encoder,
        "folds": folds,
        "decoys": decoys,
        "seed": seed,
    }
