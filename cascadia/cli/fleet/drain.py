"""`cascadia drain`: a replica without new requests."""

from pathlib import Path

import click

from cascadia.cli.fleet.common import asked, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput


@click.command()
@click.argument("replica")
@run_dir_option
@click.option("--undo", is_flag=True, help="Send requests to the replica again.")
@click.option("--stop", "stopping", is_flag=True, help="Stop the replica when it has finished what it has.")
@with_output
def drain(replica: str, run_dir: Path | None, undo: bool, stopping: bool, output: Output) -> None:
    """Send REPLICA nothing new; what it has in hand it finishes. Refused for the last that serves its stage."""
    if undo and stopping:
        raise BadInput("--undo, --stop", "each wants the other's contrary", "leave one of them out")
    known = sorted(member["name"] for member in asked(run_dir, "observe")["replicas"])
    if replica not in known:
        raise BadInput(replica, "no such replica runs here", f"there are {', '.join(known) or 'none'}")
    asked(run_dir, "undrain" if undo else "drain", name=replica)
    if stopping and not undo:
        asked(run_dir, "stop", name=replica)
    done = "serves again" if undo else "is stopped" if stopping else "gets nothing new"
    output.show(f"{replica} {done}")
    output.document({"replica": replica, "done": done})
