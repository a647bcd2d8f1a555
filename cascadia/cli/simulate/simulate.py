"""`cascadia simulate`: a written plan on any trace."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import positive, seed, with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written

if TYPE_CHECKING:
    from cascadia.domain.plan import Plan, Predicted


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path),
    help="Trace of the requests to replay. Required, unless --explain is to explain the plan's own "
    "prediction.",
)
@click.option("--format", "trace_format", help="Format of the trace. Default: told from its content.")
@click.option(
    "--rate",
    "rate_rps",
    type=positive,
    metavar="RPS",
    help="Mean rate that arrivals are rescaled to, in requests/s. Default: the plan's for its own "
    "trace, else the trace's.",
)
@click.option(
    "--quality-table",
    type=click.Path(path_type=Path),
    help="Quality table whose scores decide at the gates; gears are played by them too. Default: paths "
    "are drawn from the plan's shares.",
)
@click.option(
    "--foresight",
    type=click.Path(path_type=Path),
    help="Foresight file that the plan was made with, beside --quality-table. Default: the table's column foreseen.",
)
@click.option(
    "--slo",
    "slo_s",
    type=positive,
    metavar="S",
    help="Seconds of an SLO; the share of requests that is done within them is shown. Default: none.",
)
@click.option(
    "--seed", type=seed, help="Seed of everything drawn at random, a whole number. Default: the plan's own."
)
@click.option("--plots", type=Written(), help="HTML file to write the plots to. Default: none.")
@click.option(
    "--explain",
    is_flag=True,
    help="Show where an iteration's time goes; term by term, and the same batch on other shapes.",
)
@click.option(
    "--batch",
    "decoding",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of decoding sequences in the explained batch. Default: the mean one's.",
)
@click.option(
    "--context",
    "context_tokens",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="Tokens that each sequence of the explained batch has. Default: a mean request's.",
)
@click.option(
    "--prefill",
    "prefill_tokens",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help="Tokens of a prompt that the explained batch prefills too. Default: none.",
)
@with_output
@ends_at_once
def simulate(
    plan: Path,
    trace_file: Path | None,
    trace_format: str | None,
    rate_rps: float | None,
    quality_table: Path | None,
    foresight: Path | None,
    slo_s: float | None,
    seed: int | None,
    plots: Path | None,
    explain: bool,
    decoding: int | None,
    context_tokens: int | None,
    prefill_tokens: int | None,
    output: Output,
) -> None:
    """Replay a trace on PLAN (a plan.json, or the folder with it).

    With --explain, show instead what an iteration of each stage's replicas spends its time on: for the mean batch of
    the replay, or without a trace for that of the plan's own prediction.
    """
    asked = (decoding, context_tokens, prefill_tokens)
    if not explain and any(value is not None for value in asked):
        raise click.UsageError("--batch, --context and --prefill go with --explain")
    if foresight is not None and quality_table is None:
        raise click.UsageError("--foresight goes with --quality-table")
    if explain and (plots is not None or slo_s is not None):
        raise click.UsageError("--plots and --slo go with a replay, not with --explain")
    from cascadia.cli.shared.compiling import telling_of_the_compiler
    from cascadia.cli.simulate.outputs import as_json, tables, write_plots
    from cascadia.files.plan_file import read_plan
    from cascadia.files.text import check_writable
    from cascadia.planner.problem.points import read_as_planned
    from cascadia.planner.problem.trace_file import read_trace_for
    from cascadia.planner.replay.iterations import decoded_contexts
    from cascadia.planner.replay.replay import replay
    from cascadia.report.words import mixture

    found = read_plan(plan)
    refused = {
        "--explain": explain,
        "--quality-table": quality_table is not None,
        "--plots": plots is not None,
        "--slo": slo_s is not None,
        "--seed": seed is not None,
    }
    if plots is not None:
        check_writable(plots)
    folder = plan if plan.is_dir() else plan.parent
    if found.policies:
        _in_one_pass(found, trace_file, trace_format, rate_rps, output, refused)
        return
    if trace_file is None:
        if not explain:
            raise click.UsageError("give --trace, or --explain")
        _explain(found, found.predicted, folder, asked, output)
        return
    with output.progress("reading") as bar, telling_of_the_compiler(bar) as step:
        trace, oddities = read_trace_for(trace_file, trace_format, rate_rps, found.seed, found)
        # Scores that say nothing of their scale are on that of the plan's own table.
        scale = None if found.judge.scale == 100.0 else found.judge.scale
        asides: list[str] = []
        table = (
            None
            if quality_table is None
            else read_as_planned(found, quality_table, scale, asides.append, foresight)
        )
        step(None, f"simulating {len(trace):,} requests")
        result = replay(found, trace, folder=folder, table=table, seed=seed)
    if explain:
        _explain(found, result.predicted, folder, asked, output, decoded_contexts(result))
        return
    if plots is not None:
        write_plots(plots, found, result, trace_file.name, slo_s)
    for table_ in tables(found, result, slo_s):
        output.show(table_)
    mixed = (mixture(found),) if found.mixture else ()
    for note in (*oddities, *asides, *result.notes, *mixed):
        output.note(f"note: {note}")
    if plots is not None:
        output.show(f"plots in {plots}")
    output.document(as_json(found, result, slo_s))


def _in_one_pass(
    plan: "Plan",
    trace_file: Path | None,
    trace_format: str | None,
    rate_rps: float | None,
    output: Output,
    refused: dict[str, bool],
) -> None:
    """Replay of a plan with policies. Raises `UsageError` for an option that says nothing to them."""
    for option, given in refused.items():
        if given:
            raise click.UsageError(f"{option} says nothing to models that answer in one pass")
    if trace_file is None:
        raise click.UsageError("give --trace")
    import numpy as np

    from cascadia.cli.shared.compiling import telling_of_the_compiler
    from cascadia.cli.simulate.one_pass import document, rounds_played, table
    from cascadia.planner.policies.replayed import replay_policies
    from cascadia.planner.problem.trace_file import read_trace_for

    with output.progress("simulating") as bar, telling_of_the_compiler(bar):
        trace, oddities = read_trace_for(trace_file, trace_format, rate_rps, plan.seed, plan)
        arrival_s = np.asarray(trace.arrival_s, np.float64)
        predicted, outcome, rounds = replay_policies(plan, arrival_s)
    output.show(table(plan, predicted, outcome, len(arrival_s)))
    for note in (*oddities, *rounds_played(rounds)):
        output.note(f"note: {note}")
    output.document(document(predicted, outcome))


def _explain(
    plan: "Plan",
    predicted: "Predicted",
    folder: Path,
    asked: tuple[int | None, int | None, int | None],
    output: Output,
    contexts: dict[str, int] | None = None,
) -> None:
    from cascadia.cli.simulate.explain import as_json, tables
    from cascadia.planner.replay.iterations import BatchOptions, explain_iterations

    found = explain_iterations(plan, predicted, folder=folder, asked=BatchOptions(*asked), contexts=contexts)
    for table in tables(found):
        output.show(table)
    output.document(as_json(found))
