"""`cascadia judge eval`: how good a judge is on answers that it was not trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.judge.common import encoder_folder_of, encoder_option, quality_table, rows_of
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output, write
from cascadia.cli.shared.output_dir import Written

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from cascadia_judge.embedding import EmbeddingJudge
    from cascadia_judge.head.rows import Row
    from cascadia_judge.scores.calibration import Bin

AT_ONCE = 32


@click.command()
@click.argument("judge_file", metavar="JUDGE", type=click.Path(path_type=Path))
@click.argument("answers", type=click.Path(path_type=Path))
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME",
    help="Stage whose answers are used; repeat it for more. Default: all.",
)
@click.option(
    "--bins",
    type=click.IntRange(2, 100),
    default=10,
    show_default=True,
    help="Number of bins of the reliability table.",
)
@click.option(
    "--table",
    "table_file",
    type=Written(),
    help="File to write a quality table for `cascadia plan` to; it has the judge's scores. Default: none.",
)
@encoder_option
@with_output
@ends_at_once
def evaluate(
    judge_file: Path,
    answers: Path,
    stages: tuple[str, ...],
    bins: int,
    table_file: Path | None,
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """Let JUDGE (a file of `cascadia judge train`) score ANSWERS, and compare its scores with their quality.

    AUC says how well scores order answers; ECE and the reliability table, whether a score is the quality it
    stands for. Answers that it was trained on flatter it.
    """
    import numpy as np

    from cascadia.planner.problem.quality_file import write_quality
    from cascadia.planner.problem.quality_format import kind_of
    from cascadia_judge.embedding import Case, EmbeddingJudge
    from cascadia_judge.encoder.encoder import Encoder
    from cascadia_judge.head.training import measures
    from cascadia_judge.scores.calibration import reliability

    if table_file is not None:
        kind_of(table_file)
    rows = rows_of(answers, stages)
    judge = EmbeddingJudge.read(judge_file, Encoder.read(encoder_folder_of(encoder_folder, output)))
    scores = np.zeros(len(rows))
    tokens = 0
    with output.progress(f"judging {len(rows):,} answers") as step:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            verdicts = judge.scores([Case(r.question, r.answer, r.certainty, r.stage) for r in some])
            scores[start : start + AT_ONCE] = [verdict.score for verdict in verdicts]
            tokens += sum(verdict.tokens for verdict in verdicts)
            step((start + len(some)) / len(rows))
    quality = np.array([row.quality for row in rows])
    told = measures(scores, quality) | {"tokens_read": tokens / len(rows)}
    table = reliability(scores, quality, bins)
    output.document({"judge": str(judge_file), **told, "reliability": [row._asdict() for row in table]})
    output.show(_table(told, table))
    if table_file is not None:
        write_quality(quality_table(rows, scores, _foreseen(judge, rows), output.note), table_file)
        if not output.json and not output.quiet:
            write(f"wrote {table_file}")


def _foreseen(judge: "EmbeddingJudge", rows: "list[Row]") -> "NDArray[np.float64]":
    """Quality that the question alone promises of each row's stage; NaN where the judge has no head for that."""
    import numpy as np

    from cascadia_judge.embedding import Case

    if not judge.foresees:
        return np.full(len(rows), np.nan)
    asked = list(dict.fromkeys((row.question, row.stage) for row in rows))
    parts = [asked[start : start + AT_ONCE] for start in range(0, len(asked), AT_ONCE)]
    verdicts = [v for part in parts for v in judge.scores([Case(q, stage=stage) for q, stage in part])]
    known = dict(zip(asked, (v.score for v in verdicts), strict=True))
    return np.array([known[row.question, row.stage] for row in rows])


def _table(told: dict[str, Any], bins: "tuple[Bin, ...]") -> "Table":
    from rich.table import Table

    auc = "-" if told["auc"] is None else f"{told['auc']:.3f} ± {1.96 * told['auc_standard_error']:.3f}"
    shown = Table(
        title=f"{told['rows']:,} answers; AUC {auc}; ECE {told['ece']:.1f} points; "
        f"{told['tokens_read']:.0f} tokens read each",
        title_justify="left",
    )
    for name in ("answers", "mean score", "mean quality"):
        shown.add_column(name, justify="right")
    for row in bins:
        shown.add_row(f"{row.pairs:,}", f"{row.score:.1f}", f"{row.quality:.1f}")
    return shown
