"""`cascadia simulate`: a written plan on any trace."""

from pathlib import Path

import click

from cascadia.cli.common import positive, with_output
from cascadia.cli.output import Output


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--trace", "trace_file", required=True, type=click.Path(path_type=Path), help="Requests to replay."
)
@click.option("--format", "trace_format", help="Of the trace, where it is not to be guessed.")
@click.option("--rate", "rate_rps", type=positive, metavar="RPS", help="Rescale arrivals to this mean rate.")
@click.option(
    "--quality-table",
    type=click.Path(path_type=Path),
    help="Let its scores decide at the gates, instead of drawing paths from the plan's shares.",
)
@click.option(
    "--slo", "slo_s", type=positive, metavar="S", help="Say what share of requests is done within S."
)
@click.option("--seed", type=int, help="Of drawn paths; the plan's own by default.")
@click.option("--plots", type=click.Path(path_type=Path), help="Write the plots to this HTML file.")
@with_output
def simulate(
    plan: Path,
    trace_file: Path,
    trace_format: str | None,
    rate_rps: float | None,
    quality_table: Path | None,
    slo_s: float | None,
    seed: int | None,
    plots: Path | None,
    output: Output,
) -> None:
    """Replay a trace on PLAN (a plan.json, or the folder with it)."""
    from cascadia.cli.simulate_outputs import as_json, tables, write_plots
    from cascadia.planner.plan_file import read_plan
    from cascadia.planner.quality_file import read_quality
    from cascadia.planner.replay import replay
    from cascadia.planner.trace_file import read_trace_for

    found = read_plan(plan)
    with output.progress("reading") as step:
        trace, oddities = read_trace_for(trace_file, trace_format, rate_rps, found.seed)
        names = tuple(stage.name for stage in found.stages)
        table = read_quality(quality_table, names) if quality_table is not None else None
        step(None, f"simulating {len(trace):,} requests")
        folder = plan if plan.is_dir() else plan.parent
        result = replay(found, trace, folder=folder, table=table, seed=seed)
    if plots is not None:
        write_plots(plots, found, result, trace_file.name)
    for table_ in tables(found, result, slo_s):
        output.show(table_)
    for note in (*oddities, *result.notes):
        output.note(f"note: {note}")
    if plots is not None:
        output.show(f"plots in {plots}")
    output.document(as_json(result, slo_s))
