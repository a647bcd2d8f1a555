"""`cascadia controller`: watches the traffic of a fleet and moves it to better plans."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import CONTROLLER_LOCK, RUN_DIR, plan_path, release_options, run_dir_option
from cascadia.cli.shared.options import positive, with_output
from cascadia.cli.shared.output import Output
from cascadia.controller.shipped import AT_ONCE, LEAST_LOOKS, SCALE_S, WINDOW_S
from cascadia.domain.errors import BadInput, CascadiaError

if TYPE_CHECKING:
    from cascadia.controller.decide.settings import Settings
    from cascadia.controller.detect.samples_file import SampleFiles
    from cascadia.controller.detect.shadow_scores import LookFiles
    from cascadia.controller.loop import Controller
    from cascadia.controller.memory.history import Entry
    from cascadia.controller.service.metrics import Figures

STANDBY_S = 1.0
PORT = 8300


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--backend", type=click.Choice(["local", "kubernetes"]), default="local", show_default=True,
              help="What runs the replicas.")  # fmt: skip
@run_dir_option
@release_options
@click.option("--values", type=click.Path(path_type=Path),
              help="File with the values of the Helm release (--backend kubernetes).")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address of /metrics, /health, /ready and /history.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535),
              help=f"Port of these; 0: a free one. Default: {PORT}, or 0 where that is taken here.")  # fmt: skip
@click.option("--room", "room_s", type=positive, default=600.0, show_default=True, metavar="S",
              help="How long a pod may find no node with room.")  # fmt: skip
@click.option("--hand-back", "gives_back", is_flag=True,
              help="Make engines Helm's, and nothing else: before the release's controller is turned off.")  # fmt: skip
@click.option(
    "--engines", type=click.Path(path_type=Path), help="The local.yaml that `cascadia up` was given."
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Folder of the router's workload log. Default: samples in the run-dir. Routers on a cluster are asked for it "
    "where CASCADIA_SAMPLES_TOKEN holds their token.",
)
@click.option("--ratio", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True,
              help="Of the requests that are sampled.")  # fmt: skip
@click.option("--window", "window_s", type=positive, default=WINDOW_S, show_default=True, metavar="S",
              help="Length of the windows in which traffic is looked at, in seconds.")  # fmt: skip
@click.option("--lag", "lag_s", type=positive, default=60.0, show_default=True, metavar="S",
              help="How late an answered request may enter the log.")  # fmt: skip
@click.option("--arrivals-lag", "arrivals_lag_s", type=positive, default=35.0, show_default=True, metavar="S",
              help="How late it may enter that one came: the router's samples.seconds, and a little.")  # fmt: skip
@click.option("--false-alarms", type=positive, default=1.0, show_default=True, metavar="N",
              help="A week at most, on stationary traffic.")  # fmt: skip
@click.option("--requests", "least_requests", type=click.IntRange(20), default=200, show_default=True,
              help="Since a change, before it is planned for.")  # fmt: skip
@click.option("--looks", "least_looks", type=click.IntRange(1), default=LEAST_LOOKS, show_default=True,
              help="Number of second looks since a change that replace the scores of before.")  # fmt: skip
@click.option("--looks-within", "looks_within_s", type=positive, default=3600.0, show_default=True, metavar="S",
              help="So long no stage gives anything up for want of them.")  # fmt: skip
@click.option("--headroom", type=click.FloatRange(0, 1), default=0.05, show_default=True, metavar="SHARE",
              help="More requests than came that a plan with a latency bound is made for.")  # fmt: skip
@click.option("--least-gain", type=positive, default=0.1, show_default=True, metavar="SHARE",
              help="A move must better the objective by this share.")  # fmt: skip
@click.option("--cooldown", "cooldown_s", type=positive, default=1800.0, show_default=True, metavar="S",
              help="After a move, before the next.")  # fmt: skip
@click.option("--moves-per-day", type=click.IntRange(1), default=8, show_default=True, help="At most.")
@click.option("--startup", "startup_s", type=positive, default=120.0, show_default=True, metavar="S",
              help="Of a model that has never started here.")  # fmt: skip
@click.option("--plan-limit", "plan_limit_s", type=positive, default=300.0, show_default=True, metavar="S",
              help="Planning that takes longer is ended.")  # fmt: skip
@click.option("--at-once", type=click.IntRange(1), default=AT_ONCE, show_default=True,
              help="Most replicas that start or drain together; GPUs and capacity allow fewer.")  # fmt: skip
@click.option("--scale/--no-scale", "scales", default=True, show_default=True,
              help="Whether replicas of the plan's shapes are added and stopped in seconds, by load.")  # fmt: skip
@click.option("--quiet-time", "quiet_s", type=positive, default=600.0, show_default=True, metavar="S",
              help="Seconds for which the load must not have asked for a replica before it is stopped.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Decide and write it down, but move nothing.")
@with_output
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
    room_s: float,
    gives_back: bool,
    engines: Path | None,
    samples: Path | None,
    ratio: float,
    window_s: float,
    lag_s: float,
    arrivals_lag_s: float,
    false_alarms: float,
    least_requests: int,
    least_looks: int,
    looks_within_s: float,
    headroom: float,
    least_gain: float,
    cooldown_s: float,
    moves_per_day: int,
    startup_s: float,
    plan_limit_s: float,
    at_once: int,
    scales: bool,
    quiet_s: float,
    dry_run: bool,
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
    from cascadia.controller.decide.decide import Caution
    from cascadia.controller.decide.settings import Settings
    from cascadia.controller.detect.detect import Detection
    from cascadia.controller.detect.samples_file import SampleFiles

    folder = (run_dir or RUN_DIR).resolve()
    if backend == "local" and not folder.is_dir():
        raise BadInput(str(folder), "no fleet runs here", "start one with `cascadia up`")
    if samples is not None and not samples.is_dir():
        raise BadInput(str(samples), "no such folder", "name that of the router's `samples`")
    check_agreement(spec, plan_path(plan))
    settings = Settings(
        folder,
        spec.resolve(),
        Detection(window_s, false_alarms),
        Caution(least_gain=least_gain, cooldown_s=cooldown_s, moves_per_day=moves_per_day),
        lag_s=lag_s,
        arrivals_lag_s=arrivals_lag_s,
        least_requests=least_requests,
        least_looks=least_looks,
        looks_within_s=looks_within_s,
        headroom=headroom,
        plan_limit_s=plan_limit_s,
        startup_s=startup_s,
        at_once=at_once,
        quiet_s=quiet_s,
        dry_run=dry_run,
    )
    watched = SampleFiles(samples or folder / "samples", ratio=ratio)
    if backend == "kubernetes":
        from cascadia.cli.fleet.controller_kubernetes import Release, lead

        if values is None:
            raise BadInput("--values", "is not given", "name the file with the release's values")
        given = Release(namespace, release, values, room_s, gives_back)
        lead(
            settings,
            plan,
            given,
            watched,
            looks_of(plan, watched.folder),
            (host, PORT if port is None else port),
            output,
            scales=scales,
        )
        return
    made, figures = _made(settings, plan, engines, watched, output, scales=scales)
    with _stand_by(folder, output):
        _remember(folder, plan)
        asyncio.run(_watch(made, figures, (host, port), output))


def _made(
    settings: "Settings",
    plan: Path,
    engines: Path | None,
    samples: "SampleFiles",
    output: Output,
    *,
    scales: bool,
) -> "tuple[Controller, Figures]":
    from cascadia.controller.decide.replan import replan
    from cascadia.controller.local.engines_file import read_local
    from cascadia.controller.local.load import LocalLoad
    from cascadia.controller.local.plans import LocalPlans
    from cascadia.controller.loop import Controller
    from cascadia.controller.service.metrics import Figures
    from cascadia.controller.speed.watch import LocalEngines, SpeedWatch

    speeds = SpeedWatch(LocalEngines(settings.folder), settings.spec.parent, time.time)
    figures = Figures(speeds)

    def tell(entry: "Entry") -> None:
        output.note(f"{entry.kind}: {entry.what}")
        figures.tell(entry)

    made = Controller(
        settings,
        figures.watched(LocalPlans(settings.folder, read_local(engines))),
        samples.read,
        figures.replanner(replan),
        looks=looks_of(plan, samples.folder),
        speeds=speeds,
        tell=tell,
        load=LocalLoad(settings.folder) if scales else None,
    )
    return made, figures


def looks_of(plan: Path, samples: Path) -> "LookFiles":
    """The second looks of a fleet that runs `plan`, or one of the same stages."""
    from cascadia.controller.detect.shadow_scores import LookFiles
    from cascadia.files.plan_file import read_plan

    return LookFiles(samples, tuple(stage.name for stage in read_plan(plan).stages))


def _stand_by(folder: Path, output: Output) -> ExitStack:
    """Until no other controller acts. What is returned holds the lock, as long as this process lives."""
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
    from cascadia.controller.memory.state import IN_FORCE, write_in_force

    if not (folder / IN_FORCE).exists():
        write_in_force(folder, plan_path(plan))


async def _watch(made: "Controller", figures: "Figures", at: tuple[str, int | None], output: Output) -> None:
    from cascadia.clients.processes.ports import is_free
    from cascadia.controller.service.routes import face, serving

    host, port = at
    if port is None:
        port = PORT if is_free(PORT) else 0
    figures.begin(lambda: True)
    async with serving(face(figures, made.state.entries), host, port) as found:
        output.note(f"figures at http://{host}:{found}/metrics")
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
