"""`cascadia status`: what runs on this machine."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cascadia.cli.fleet.common import asked, run_dir_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output

ANY_WIDTH = 10_000
"""Columns: in a pipe a replica is one line, whatever it failed of, so that `grep` finds it."""


@click.command()
@run_dir_option
@with_output
def status(run_dir: Path | None, output: Output) -> None:
    """Show replicas, their state and work, and what the router was told."""
    from cascadia.controller.move.state import Routing

    document = asked(run_dir, "observe")
    told = {key: document[key] for key in ("replicas", "router", "routing", "gpus")}
    told["replicas"].sort(key=lambda replica: replica["name"])
    output.show(_table(told), ANY_WIDTH)
    router = told["router"]
    if router is None:
        output.show("no router yet")
    else:
        gates = Routing.read(told["routing"]).told
        output.show(
            f"router {router['state']} at {router['url']}" + (f", thresholds {gates}" if gates else "")
        )
    for line in _elsewhere(document["document"]):
        output.show(line)
    output.document(told)


def _elsewhere(router: Mapping[str, Any]) -> Iterator[str]:
    """A line for each API of others that the router asks."""
    from cascadia.controller.local.router_file import all_elsewhere

    for name, told in all_elsewhere(router):
        for replica in told["replicas"]:
            limit = replica.get("requests_per_minute")
            most = f", at most {limit:,} requests a minute" if limit else ""
            yield f"{name} is elsewhere: {replica['url']}{most}"


def _state(replica: dict[str, Any]) -> str:
    again_in_s = replica["again_in_s"]
    return str(replica["state"] if again_in_s is None else f"down, again in {again_in_s:.0f} s")


def _table(told: dict[str, Any]) -> object:
    from rich.table import Table

    table = Table("replica", "state", "running", "GPUs", "address", "starts", "last failure")
    for replica in told["replicas"]:
        gpus = (
            f"{replica['kind']['pool']}: {', '.join(map(str, replica['gpus']))}"
            if replica["gpus"]
            else "none"
        )
        table.add_row(
            replica["name"],
            _state(replica),
            str(replica["running"]),
            gpus,
            replica["url"],
            str(replica["starts"]),
            replica["why"],
        )
    return table
