"""`cascadia demo`: a real cascade on this machine, measured against its plan."""

from pathlib import Path

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput


@click.command()
@click.option("--plan-only", is_flag=True, help="Plan a made-up example of 32 GPUs and start nothing.")
@click.option(
    "--classify",
    "classifies",
    is_flag=True,
    help="Run a cascade of classifiers instead, beside the largest alone; 105 MB, once, and a minute.",
)
@click.option(
    "--external", is_flag=True, help="The large model is somebody else's API, with a price; see the dollars."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write the plan, the example's files and the answers to. Default: demo-run, or "
    "demo-plan, demo-classify, demo-external by kind.",
)
@click.option(
    "--keep", is_flag=True, help="Leave the endpoint up after the measurement, until it is interrupted."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--calibrate", is_flag=True, help="Measure the engines' speed again, as the first run does.")
@with_output
def demo(
    plan_only: bool,
    classifies: bool,
    external: bool,
    out: Path | None,
    keep: bool,
    port: int,
    calibrate: bool,
    output: Output,
) -> None:
    """Run a cascade of two small models on this machine, no GPU needed, and measure it against its plan.

    Gets the models (700 MB, once), measures how fast they are here (once), plans for two cores, starts what
    the plan says, and sends 72 questions with known answers through the cascade and through each model alone.
    """
    if external and (plan_only or classifies):
        raise BadInput("--external", "is of the demo that serves two models", "leave the others out")
    if classifies:
        if plan_only or calibrate:
            raise BadInput(
                "--classify", "plans and calibrates nothing", "leave out --plan-only and --calibrate"
            )
        from cascadia.cli.demo.classify import classify

        classify(out or Path("demo-classify"), output, keep=keep, port=port)
        return
    if plan_only:
        if keep or calibrate:
            raise BadInput("--plan-only", "starts nothing", "leave out --keep and --calibrate")
        from cascadia.cli.demo.plan import plan_bundled

        plan_bundled(out or Path("demo-plan"), output)
        return
    from cascadia.cli.demo.run import run

    where = out or Path("demo-external" if external else "demo-run")
    run(where, output, keep=keep, port=port, calibrate_again=calibrate, external=external)
