"""`cascadia history`: what the controller saw, decided and did."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import RUN_DIR, release_options, run_dir_option
from cascadia.cli.shared.options import positive, refuse_ignored, with_output
from cascadia.cli.shared.output import Output

DAY_S = 86_400.0

if TYPE_CHECKING:
    from cascadia.controller.memory.history import Entry


@click.command()
@run_dir_option
@click.option(
    "--kubernetes", is_flag=True, help="Show the history of a release on the cluster of your kubeconfig."
)
@release_options
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Number of lines to show, counted from the end.",
)
@click.option("--decisions", is_flag=True, help="Leave out the single steps of moves.")
@click.option("--timing", is_flag=True, help="Show where the time of each move went instead, in seconds.")
@click.option(
    "--savings",
    "plan",
    metavar="PLAN",
    type=click.Path(path_type=Path),
    help="Plan whose prices tell what was saved; the comparison is with the largest stage alone. "
    "Default: history is shown.",
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Folder of the router's workload log. Default: samples in the run-dir.",
)
@click.option(
    "--days",
    type=positive,
    default=7.0,
    help="Days until now that --savings looks at. Default: 7.",
)
@with_output
def history(
    run_dir: Path | None,
    kubernetes: bool,
    namespace: str | None,
    release: str,
    lines: int,
    decisions: bool,
    timing: bool,
    plan: Path | None,
    samples: Path | None,
    days: float,
    output: Output,
) -> None:
    """Show alarms, decisions and moves, a line each, oldest first. Times are UTC."""
    if plan is not None:
        refuse_ignored(
            ("kubernetes", "decisions", "timing", "lines", "namespace", "release"), "with --savings"
        )
        _show_savings(plan, samples or (run_dir or RUN_DIR) / "samples", days, output)
        return
    refuse_ignored(("samples", "days"), "without --savings")
    if kubernetes:
        refuse_ignored(("run_dir",), "with --kubernetes")
    else:
        refuse_ignored(("namespace", "release"), "without --kubernetes")
    if timing:
        refuse_ignored(("decisions",), "with --timing")
    found = _on_cluster(namespace, release) if kubernetes else _on_machine(run_dir or RUN_DIR)
    if timing:
        _show_timing(found, lines, output)
        return
    entries = [entry for entry in found if not (decisions and entry.kind == "step")][-lines:]
    for entry in entries:
        at = datetime.fromtimestamp(entry.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        output.show(f"{at}  {entry.kind:<11} {entry.what}")
    output.document({"entries": entries})


def _show_timing(entries: "list[Entry]", lines: int, output: Output) -> None:
    from cascadia.controller.memory.timing import move_timings

    moves = list(move_timings(entries))[-lines:]
    if not moves:
        output.note("no move has ended")
    for move in moves:
        at = datetime.fromtimestamp(move.begun_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        output.show(f"{at}  {move.outcome}, {move.to_plan_s + move.to_last_step_s:.0f} s in all: {move.what}")
        before = (
            ("noticing", move.noticed_s),
            ("requests since", move.gathered_s),
            ("planning", move.planning_s),
        )
        loading = ((f"loading {stage}", took_s) for stage, took_s in move.loading_s.items())
        after = (*loading, ("draining", move.draining_s), ("other steps", move.rest_s))
        for what, took_s in (*before, *after):
            output.show(f"  {what:<24}{took_s:>8.1f}")
    output.document({"moves": moves})


def _show_savings(plan: Path, samples: Path, days: float, output: Output) -> None:
    from time import time

    from cascadia.domain.prices import token_prices
    from cascadia.files.plan_file import read_plan
    from cascadia.thresholds.savings import observed, savings

    now_s = time()
    found = savings(observed(samples, token_prices(read_plan(plan)), now_s - days * DAY_S, now_s))
    output.show(f"last {days:g} days: {found.said}")
    output.document({"days": days, "savings": found})


def _on_machine(run_dir: Path) -> "list[Entry]":
    from cascadia.controller.memory.history import read_history

    return read_history(run_dir)


def _on_cluster(namespace: str | None, name: str) -> "list[Entry]":
    import asyncio

    from cascadia.cli.fleet.controller_kubernetes import history_of

    return asyncio.run(history_of(namespace, name))
