"""`cascadia down`: the end of a fleet, drained."""

import time
from pathlib import Path

import click

from cascadia.cli.fleet.common import RUN_DIR, asked, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

LOOK_S = 0.1


@click.command()
@run_dir_option
@with_output
def down(run_dir: Path | None, output: Output) -> None:
    """End what `cascadia up` began: the router finishes what it has, then all engines stop."""
    from cascadia.controller.local.supervisor import LOCK, only_one

    folder = run_dir or RUN_DIR
    asked(folder, "down")
    while True:
        try:
            with only_one(folder / LOCK, "", ""):
                break
        except BadInput:
            time.sleep(LOOK_S)
    output.show("all processes have ended")
    output.document({"run_dir": folder, "ended": True})
