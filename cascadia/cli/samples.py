"""`cascadia samples`: a router's workload log as the inputs of a plan."""

from pathlib import Path

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output

TRACE = "trace.parquet"
QUALITY = "quality.parquet"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help=f"Folder for {TRACE} and {QUALITY}."
)
@click.option("--force", is_flag=True, help="Write into a folder even if it has other files in it.")
@with_output
@ends_at_once
def samples(folder: Path, out: Path, force: bool, output: Output) -> None:
    """Put the workload log in FOLDER together: a trace, and a quality table where there were shadow evaluations."""
    from cascadia.cli.shared.output_dir import output_dir
    from cascadia.planner.problem.quality_file import write_quality
    from cascadia.planner.problem.samples_folder import read_samples
    from cascadia_traces.formats.writing import write_trace

    with output_dir(out, (TRACE, QUALITY), force=force) as staging:
        found = read_samples(folder)
        write_trace(found.trace, staging / TRACE)
        if found.quality is not None:
            write_quality(found.quality, staging / QUALITY)
    trace, table = found.trace, found.quality
    output.show(f"{out / TRACE}: {len(trace):,} requests in {trace.duration_s:,.0f} s, {found.files} files")
    if table is not None:
        output.show(f"{out / QUALITY}: {len(table):,} questions at {', '.join(table.stages)}")
    else:
        output.note("no shadow evaluations, so no quality table; see shadow in docs/reference/router.md")
    if found.left_out:
        what = "lack a stage or its score" if table is not None else "lack a score"
        output.note(f"note: {found.left_out:,} questions {what}, and are left out of the table")
    output.document(
        {
            "trace": str(out / TRACE),
            "requests": len(trace),
            "duration_s": trace.duration_s,
            "rate_rps": trace.rate_rps,
            "quality": None if table is None else str(out / QUALITY),
            "questions": 0 if table is None else len(table),
            "stages": [] if table is None else list(table.stages),
            "left_out": found.left_out,
            "files": found.files,
        }
    )
