"""A fleet on this machine, as moves see it. It runs in a process of its own: who moves it may die at any time."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cascadia.controller.local.control_socket import ask, told_by
from cascadia.controller.local.launch import Launch, launch_of
from cascadia.controller.local.members import FleetError
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Kind, Observed, Replica, Routing
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain


class LocalBackend:
    """`launches` and `documents` (router.yaml by the routing's label) are those of all plans that may be moved to."""

    def __init__(
        self,
        folder: Path,
        launches: Mapping[Kind, Launch] | None = None,
        documents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder = folder
        self.launches = dict(launches or {})
        self.documents = dict(documents or {})

    async def observe(self) -> Observed:
        document = await ask(self.folder, "observe")
        with told_by(self.folder):
            # What runs can be started again, whoever knew how.
            for launch in map(launch_of, document["launches"]):
                self.launches.setdefault(launch.kind, launch)
            observed = observed_of(document)
            if observed.routing is not None:
                self.documents.setdefault(observed.routing.label, document["document"])
        return observed

    async def take(self, step: Step) -> None:
        try:
            await self._take(step)
        except FleetError as error:
            raise StepFailed(f"{step}: {error}") from error

    async def _take(self, step: Step) -> None:
        match step:
            case Start(name, kind):
                await ask(self.folder, "start", name=name, launch=self.launches[kind].document)
            case AwaitReady(name):
                await ask(self.folder, "await", name=name)
            case Undrain(name):
                await ask(self.folder, "undrain", name=name)
            case Drain(name):
                await ask(self.folder, "drain", name=name)
            case Stop(name):
                await ask(self.folder, "stop", name=name)
            case Route(routing):
                document = self.documents[routing.label]
                await ask(self.folder, "route", routing=asdict(routing), document=document)


def observed_of(document: Mapping[str, Any]) -> Observed:
    """Reads back what `LocalFleet.observe` told."""
    routing = document["routing"]
    return Observed(
        tuple(Replica(r["name"], Kind(**r["kind"]), r["state"], r["running"]) for r in document["replicas"]),
        document["gpus"],
        None if routing is None else Routing.read(routing),
    )
