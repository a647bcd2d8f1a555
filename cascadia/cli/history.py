"""`cascadia history`: what the controller saw, decided and did."""

from datetime import UTC, datetime
from pathlib import Path

import click

from cascadia.cli.common import with_output
from cascadia.cli.fleet_common import RUN_DIR, run_dir_option
from cascadia.cli.output import Output


@click.command()
@run_dir_option
@click.option(
    "--lines", "-n", type=click.IntRange(1), default=50, show_default=True, help="The last so many."
)
@click.option("--decisions", is_flag=True, help="Without single steps.")
@with_output
def history(run_dir: Path | None, lines: int, decisions: bool, output: Output) -> None:
    """Show alarms, decisions and moves, a line each, oldest first. Times are UTC."""
    from cascadia.controller.history import read_history

    entries = [
        entry for entry in read_history(run_dir or RUN_DIR) if not (decisions and entry.kind == "step")
    ][-lines:]
    for entry in entries:
        at = datetime.fromtimestamp(entry.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        output.show(f"{at}  {entry.kind:<11} {entry.what}")
    output.document({"entries": entries})
