"""`cascadia down`: the end of a fleet, drained."""

import time
from pathlib import Path

import click

from cascadia.cli.fleet.common import RUN_DIR, asked, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

LOOK_S = 0.1


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@click.command()
@run_dir_option
@with_output
def down(run_dir: Path | None, output: Output) -> None:
    """End what `cascadia up` began: the router finishes what it has, then all engines stop."""
    from cascadia.controller.local.supervisor import LOCK, only_one

    folder = run_dir or RUN_DIR
    pid = asked(folder, "down").get("pid")
    while True:
        try:
            with only_one(folder / LOCK, "", ""):
                break
        except BadInput:
            time.sleep(LOOK_S)
    while pid is not None and _is_alive(pid):  # it may take a while to end after it gave its lock back
        time.sleep(LOOK_S)
    output.show("all processes have ended")
    output.document({"run_dir": folder, "ended": True})
