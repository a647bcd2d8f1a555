"""Plans as a fleet on this machine runs them."""

from pathlib import Path

from cascadia.controller.local.backend import LocalBackend
from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import Local
from cascadia.controller.move.state import Desired
from cascadia.files.plan_file import read_plan


class LocalPlans:
    """`local` is what `cascadia up` was told of this machine."""

    def __init__(self, folder: Path, local: Local) -> None:
        self.backend = LocalBackend(folder)
        self._local = local

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        """The backend learns how to start what the plan has. Raises `BadInput`."""
        found = local_plan(read_plan(plan), self._local)
        self.backend.launches.update(found.launches)
        self.backend.documents[found.routing.label] = found.router
        return found.desired(need_rps)
