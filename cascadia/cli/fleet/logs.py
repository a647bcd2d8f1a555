"""`cascadia logs`: what an engine or the router wrote."""

import time
from collections import deque
from pathlib import Path

import click

from cascadia.cli.fleet.common import RUN_DIR, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output, write
from cascadia.domain.errors import BadInput

LOOK_S = 0.2


@click.command()
@click.argument("name", default="router")
@run_dir_option
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of lines to show, counted from the end.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on with what is written from now on, until interrupted."
)
@with_output
def logs(name: str, run_dir: Path | None, lines: int, follow: bool, output: Output) -> None:
    """Show the log of NAME: a replica, `router` (the default) or `up`. It stays after its process has ended."""
    folder = (run_dir or RUN_DIR) / "logs"
    path = folder / f"{name}.log"
    if path.parent != folder or not path.is_file():
        known = ", ".join(sorted(found.stem for found in folder.glob("*.log")))
        if not known:
            raise BadInput(str(folder), "holds no logs", "name the folder of `cascadia up` with --run-dir")
        raise BadInput(name, "has no log here", f"there are {known}")
    with path.open(encoding="utf-8", errors="replace") as file:
        last = [line.rstrip("\n") for line in deque(file, maxlen=lines)]
        if output.json:
            output.document({"log": path, "lines": last})
            return
        for line in last:
            write(line)
        while follow:
            if line := file.readline():
                write(line)
            elif path.stat().st_size < file.tell():
                file.seek(0)  # it has begun anew
            else:
                time.sleep(LOOK_S)
