"""`cascadia controller`: watches the traffic of a fleet and moves it to better plans."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import (
    CONTROLLER_LOCK,
    RUN_DIR,
    engines_of,
    engines_option,
    plan_path,
    release_options,
    run_dir_option,
)
from cascadia.cli.fleet.controller_settings import setting_options
from cascadia.cli.interrupts import ends_within
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.controller.settings.file import settings_of
from cascadia.controller.settings.model import ControllerFile
from cascadia.controller.shipped import SCALE_S
from cascadia.domain.errors import BadInput, CascadiaError
from cascadia.files.addresses import http_url

if TYPE_CHECKING:
    from cascadia.controller.decide.settings import Settings
    from cascadia.controller.detect.log_files import Tell
    from cascadia.controller.detect.samples_file import SampleFiles
    from cascadia.controller.detect.shadow_scores import ShadowFiles
    from cascadia.controller.loop import Controller
    from cascadia.controller.memory.history import Entry
    from cascadia.controller.service.metrics import Figures

STANDBY_S = 1.0
END_S = 10.0
"""After a signal: a search for the steps of a move may take longer, and nothing is lost where it is left."""
PORT = 8300


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--backend", type=click.Choice(["local", "kubernetes"]), default="local", show_default=True,
              help="Backend that runs the replicas: this machine, or a Kubernetes cluster.")  # fmt: skip
@run_dir_option
@release_options
@click.option("--values", type=click.Path(path_type=Path),
              help="File with the values of the Helm release. Required with --backend kubernetes.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to serve /metrics, /health, /ready and /history on.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535),
              help=f"Port to listen on; 0 takes a free one. Default: {PORT}, 0 where that is taken here.")  # fmt: skip
@click.option("--hand-back", "gives_back", is_flag=True,
              help="Hand engines back to Helm, and do nothing else; meant for before the release's "
              "controller is turned off.")  # fmt: skip
@engines_option
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Folder of the router's workload log. Default: samples in the run-dir. Routers on a cluster are asked for it "
    "where CASCADIA_SAMPLES_TOKEN holds their token.",
)
@click.option("--dry-run", is_flag=True, help="Decide and write decisions to the history, but move nothing.")
@setting_options
@with_output
@ends_within(END_S)
def controller(
    spec: Path,
    plan: Path,
    backend: str,
    run_dir: Path | None,
    namespace: str | None,
    release: str,
    values: Path | None,
    host: str,
    port: int | None,
    gives_back: bool,
    engines: Path | None,
    samples: Path | None,
    dry_run: bool,
    tuned: ControllerFile,
    output: Output,
) -> None:
    """Watch a fleet, give it the replicas that its load asks for, plan anew for SPEC when its traffic changes, and move
    to plans that pay.

    With --backend local the fleet is that of `cascadia up` in --run-dir, and PLAN is what that was started with. With
    --backend kubernetes it is a release of the chart, which starts this command; PLAN is brought about where nothing
    runs yet, and moved to whenever its file changes. The plan in force is remembered in the run-dir, or in a ConfigMap.
    A second controller on the same fleet stands by until the first has gone. Ends at SIGTERM, also in the middle of a
    move, which the next one ends.
    """
    from cascadia.controller.decide.agreement import check_agreement
    from cascadia.controller.detect.samples_file import SampleFiles
    from cascadia.planner.spec.file import answers_in_one_pass

    folder = (run_dir or RUN_DIR).resolve()
    if backend == "local" and not folder.is_dir():
        raise BadInput(str(folder), "no fleet runs here", "start one with `cascadia up`")
    if samples is not None and not samples.is_dir():
        raise BadInput(str(samples), "no such folder", "name that of the router's `samples`")
    check_agreement(spec, plan_path(plan))
    settings = settings_of(tuned, folder=folder, spec=spec.resolve(), dry_run=dry_run)
    watched = SampleFiles(samples or folder / "samples", ratio=tuned.samples.ratio, tell=output.note)
    if backend == "kubernetes":
        from cascadia.cli.fleet.controller_kubernetes import Release, lead

        if answers_in_one_pass(spec):
            what = "has no Service for models that answer in one pass: a batch goes to one worker by its own address"
            raise BadInput("--backend kubernetes", what, "write --backend local")
        if values is None:
            raise BadInput("--values", "is not given", "name the file with the release's values")
        given = Release(namespace, release, values, tuned.moves.room_s, gives_back)
        lead(
            settings,
            plan,
            given,
            samples=watched,
            evaluations=evaluations_of(plan, watched.folder, output.note),
            at=(host, PORT if port is None else port),
            output=output,
        )
        return
    made, figures = _made(settings, plan, engines, watched, output)
    with _stand_by(folder, output):
        _remember(folder, plan)
        asyncio.run(_watch(made, figures, (host, port), output))


def _made(
    settings: "Settings",
    plan: Path,
    engines: Path | None,
    samples: "SampleFiles",
    output: Output,
) -> "tuple[Controller, Figures]":
    from cascadia.controller.decide.replan import replan
    from cascadia.controller.local.engines_file import read_local
    from cascadia.controller.local.load import LocalLoad
    from cascadia.controller.local.plans import LocalPlans
    from cascadia.controller.loop import Controller
    from cascadia.controller.service.metrics import Figures
    from cascadia.controller.speed.watch import LocalEngines, SpeedWatch

    speeds = SpeedWatch(LocalEngines(settings.folder), settings.spec.parent, time.monotonic)
    figures = Figures(speeds)

    def tell(entry: "Entry") -> None:
        output.note(f"{entry.kind}: {entry.what}")
        figures.tell(entry)

    made = Controller(
        settings,
        figures.watched(LocalPlans(settings.folder, read_local(engines_of(settings.folder, engines)))),
        samples.read,
        figures.replanner(replan),
        steady_s=time.monotonic,
        forget=samples.forget,
        evaluations=evaluations_of(plan, samples.folder, output.note),
        speeds=speeds,
        tell=tell,
        load=LocalLoad(settings.folder),
    )
    return made, figures


def evaluations_of(plan: Path, samples: Path, tell: "Tell") -> "ShadowFiles":
    """The shadow evaluations of a fleet that runs `plan`, or one of the same stages."""
    from cascadia.controller.detect.shadow_scores import ShadowFiles
    from cascadia.files.plan_file import read_plan

    return ShadowFiles(samples, tuple(stage.name for stage in read_plan(plan).stages), tell=tell)


def _stand_by(folder: Path, output: Output) -> ExitStack:
    """Waits until no other controller acts. What is returned holds the lock, as long as this process lives."""
    from cascadia.controller.local.supervisor import only_one

    held = ExitStack()
    told = False
    while True:
        try:
            held.enter_context(only_one(folder / CONTROLLER_LOCK, "another controller acts", "wait"))
        except BadInput:
            if not told:
                output.note("another controller acts on this fleet; standing by")
            told = True
            time.sleep(STANDBY_S)
        else:
            return held


def _remember(folder: Path, plan: Path) -> None:
    from cascadia.controller.memory.state import IN_FORCE, check_in_force, write_in_force

    if not (folder / IN_FORCE).exists():
        write_in_force(folder, plan_path(plan))
    check_in_force(folder)


async def _watch(made: "Controller", figures: "Figures", at: tuple[str, int | None], output: Output) -> None:
    from cascadia.clients.processes.ports import is_free
    from cascadia.controller.service.routes import routes, serving

    host, port = at
    if port is None:
        port = PORT if is_free(PORT) else 0
    figures.begin(lambda: True)
    async with serving(routes(figures, made.state.entries), host, port) as found:
        told = replace(output, quiet=output.quiet and found in (at[1], PORT))  # where nobody could know it
        told.note(f"figures at {http_url(host, found)}/metrics")
        await made.adopt()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_scale(made))
                while True:
                    await made.tick()
                    figures.passed(made)
                    await asyncio.sleep(made.settings.detection.window_s)
        except* CascadiaError as group:
            raise group.exceptions[0] from None


async def _scale(made: "Controller") -> None:
    """The inner loop, beside the other."""
    while True:
        await made.scale()
        await asyncio.sleep(SCALE_S)
