"""`cascadia ui`: the planner in the browser."""

import sys
from pathlib import Path

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.service import listening_at

CHILD = "from cascadia.cli.ui.plan_process import main; main()"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8400,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@with_output
def ui(spec: Path, host: str, port: int, output: Output) -> None:
    """Plan SPEC (a cascade.yaml) in the browser, until it is interrupted.

    The page has sliders for quality, rate, GPUs, price and latency over what the planner tried, tells what limits a
    plan, sets two side by side, and has each plan's files for download. It asks nothing of the network, and answers
    this machine only, unless --host says otherwise.
    """
    from cascadia.cli.plan.outputs import PLAN_FILES
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.files.scratch import scratch
    from cascadia.planner.spec.file import read_spec
    from cascadia.whatif.app import application
    from cascadia.whatif.plans import Plans
    from cascadia.whatif.worker import Worker

    read_spec(spec)
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.serving({"url": url}, f"the planner is at {url} (end it with Ctrl-C)", port)

    with scratch("ui-") as folder:
        worker = Worker([sys.executable, "-P", "-c", CHILD], spec.resolve())
        plans = Plans(worker, folder)
        run(application(plans, spec, hosts=LOOPBACK | {host, f"[{host}]"}, files=PLAN_FILES), listening, told)
