"""`cascadia judge train-exits`: a ramp for an embedding judge, trained on its own verdicts."""

from pathlib import Path

import click

from cascadia.cli.exits.common import promise_of, with_promise
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.judge.common import encoder_folder_of, encoder_option, read_judge, rows_of
from cascadia.cli.shared.options import Within, with_output
from cascadia.cli.shared.output import Output, write
from cascadia.domain.errors import BadInput


@click.command("train-exits")
@click.argument("judge_file", metavar="JUDGE", type=click.Path(path_type=Path))
@click.argument("answers", type=click.Path(path_type=Path))
@click.option(
    "--points",
    type=Within(0.1, 100),
    default=10.0,
    show_default=True,
    help="Points by which an early verdict may be off, 0.1 to 100; beyond, it counts as different.",
)
@with_promise
@encoder_option
@with_output
@ends_at_once
def train_exits(
    judge_file: Path,
    answers: Path,
    points: float,
    risk: float,
    confidence: float,
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """Train a ramp for JUDGE on ANSWERS (JSON lines as for `judge train`; their quality is not looked at).

    It is written beside JUDGE, as JUDGE.exits; `judge serve --exits` and `judge: {exits: ...}` of a spec use it.
    """
    from cascadia.exits.readings import exits, losses
    from cascadia.judge_service.ramp import EarlyEncoder, digest, file_of, write_ramp
    from cascadia.judge_service.train_ramp import fit_ramp
    from cascadia_judge.embedding import Case

    promise_of(risk, confidence)
    judge = read_judge(judge_file, encoder_folder, 1, output)
    early = EarlyEncoder.read(encoder_folder_of(encoder_folder, output))
    rows = rows_of(answers, (), graded=False)
    cases = [Case(row.question, row.answer or None, row.certainty, row.stage) for row in rows]
    with output.progress(f"reading {len(cases):,} answers"):
        try:
            ramp, fresh = fit_ramp(judge, early, cases, digest(judge_file), points, risk)
        except ValueError as error:
            raise BadInput(str(answers), *str(error).split("; ", 1)) from None
    write_ramp(judge_file, ramp)
    left = [exits(fresh.doubts, row) for row in ramp.path.thresholds]
    safe = [float((one == 0).mean()) for one in left if losses(fresh, one).mean() <= risk]
    share = max(safe, default=0.0)
    output.document({"ramp": str(file_of(judge_file)), "verdicts": len(fresh), "leave": share})
    if not output.json and not output.quiet:
        told = f"{share:.0%} of {len(fresh):,} verdicts may come early with at most {risk:g} off by {points:g} points"
        write(f"wrote {file_of(judge_file)}: {told}")
