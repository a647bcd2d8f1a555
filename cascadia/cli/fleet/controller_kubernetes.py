"""`cascadia controller --backend kubernetes`: the parts of a controller on a cluster, put together."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput, CascadiaError
from cascadia.files.extras import install

try:
    from cascadia.clients.cluster.kubernetes_api import ApiFailed, KubernetesApi
except ModuleNotFoundError as missing:
    raise BadInput("--backend kubernetes", f"needs {missing.name}", install("kubernetes")) from None
from cascadia.clients.cluster.router_samples import RouterSamples, SamplesMissing
from cascadia.controller.decide.replan import replan
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.shadow_scores import ShadowEvaluations
from cascadia.controller.kubernetes import run as kubernetes_run
from cascadia.controller.kubernetes.backend import KubernetesBackend, Patience
from cascadia.controller.kubernetes.engines import KubernetesEngines
from cascadia.controller.kubernetes.events import Events
from cascadia.controller.kubernetes.load import KubernetesLoad
from cascadia.controller.kubernetes.plans import KubernetesPlans, read_values
from cascadia.controller.kubernetes.state import KubernetesState, read_kubernetes_history
from cascadia.controller.loop import Controller
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.service.metrics import Figures
from cascadia.controller.service.routes import routes, serving
from cascadia.controller.speed.watch import SpeedWatch
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.kubernetes.release import Release as Rendered
from cascadia.render.kubernetes.router_config import SAMPLES_TOKEN

if TYPE_CHECKING:
    from cascadia.controller.detect.samples_file import SampleFiles
    from cascadia.controller.memory.history import Entry

LOOK_S = 10.0
MARGIN_S = 300.0
"""For a pod's node and image, before its engine starts."""
KINDS: dict[type[CascadiaError], str] = {
    ApiFailed: "api",
    StepFailed: "step",
    BadInput: "input",
    SamplesMissing: "samples",
}
"""What a look may fail of, as the metric `errors_total` calls it."""


class Release(NamedTuple):
    """A Helm release, how long its pods may find no node with room, and whether its engines become Helm's."""

    namespace: str | None
    name: str
    values: Path
    room_s: float
    gives_back: bool


def lead(
    settings: Settings,
    plan: Path,
    given: Release,
    *,
    samples: "SampleFiles",
    evaluations: ShadowEvaluations,
    at: tuple[str, int],
    output: Output,
) -> None:
    """Leads, or stands by, until SIGTERM."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    plan = plan / "plan.json" if plan.is_dir() else plan

    async def main() -> None:
        async with KubernetesApi(given.namespace) as api:
            await run(api)

    async def run(api: KubernetesApi) -> None:
        values = merged(defaults(), read_values(given.values))
        rendered = Rendered(values, given.name, api.namespace, await api.find_apis())
        startup_s = values["engines"]["startupSeconds"] + MARGIN_S
        backend = KubernetesBackend(api, rendered, Patience(startup_s, room_s=given.room_s))
        plans = KubernetesPlans(backend, given.values, rendered)
        state = KubernetesState(api, rendered, settings.folder)
        holder = f"{socket.gethostname()}-{os.urandom(4).hex()}"
        speeds = SpeedWatch(KubernetesEngines(backend), settings.spec.parent, time.monotonic)
        figures = Figures(speeds)
        events = Events(api, rendered, holder, lost=lambda why: figures.events_lost.labels(why).inc())

        def tell(entry: "Entry") -> None:
            output.note(f"{entry.kind}: {entry.what}")
            figures.tell(entry)
            events.tell(entry)

        controller = Controller(
            settings,
            figures.watched(kubernetes_run.SavedPlans(plans, state)),
            samples.read,
            figures.replanner(replan),
            steady_s=time.monotonic,
            forget=samples.forget,
            evaluations=evaluations,
            speeds=speeds,
            tell=tell,
            state=state,
            load=KubernetesLoad(backend.routers),
        )
        token = os.environ.get(SAMPLES_TOKEN)
        fetched = RouterSamples(backend.routers.sources, samples.folder, token) if token else None
        lease = kubernetes_run.lease_of(api, rendered, holder)
        output.note(f"standing by for the lease of {given.name} in {api.namespace}")
        said = ""

        def leads() -> None:
            output.note("leading")
            figures.begin(lambda: lease.held)

        def passed() -> None:
            nonlocal said
            said = ""
            figures.passed(controller)

        def failed(error: CascadiaError) -> None:
            nonlocal said
            if str(error) != said:
                said = str(error)
                output.note(f"not now: {said}")
            figures.failed(KINDS[type(error)], error)

        writing = asyncio.create_task(events.keep())
        working = asyncio.create_task(
            kubernetes_run.run(
                controller,
                plans,
                state,
                lease,
                api,
                plan,
                look_s=min(LOOK_S, settings.detection.window_s),
                fetch=None if fetched is None else fetched.fetch,
                gives_back=given.gives_back,
                leads=leads,
                passed=passed,
                failed=failed,
            )
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        async with serving(routes(figures, state.entries), *at):
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await working
            finally:
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                    await writing

    asyncio.run(main())


async def history_of(namespace: str | None, name: str) -> "list[Entry]":
    async with KubernetesApi(namespace) as api:
        return await read_kubernetes_history(api, Rendered(defaults(), name, api.namespace))
