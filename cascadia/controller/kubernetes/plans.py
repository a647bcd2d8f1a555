"""Plans as a release on a cluster runs them."""

from pathlib import Path

from cascadia.controller.kubernetes.backend import KubernetesBackend
from cascadia.controller.kubernetes.desired import KubernetesPlan, read_kubernetes_plan
from cascadia.controller.move.state import Desired
from cascadia.domain.errors import BadInput
from cascadia.files.strict_yaml import parse_yaml
from cascadia.files.text import read_text
from cascadia.render.kubernetes.chart_values import Values
from cascadia.render.kubernetes.release import Release

MAX_BYTES = 4_000_000


class KubernetesPlans:
    """`values`: a file with the values of the release, which may change while this runs."""

    def __init__(self, backend: KubernetesBackend, values: Path, release: Release) -> None:
        self.backend = backend
        self._values = values
        self._release = release

    def read(self, plan: Path) -> KubernetesPlan:
        """The backend learns how to make what the plan has. Raises `BadInput`."""
        base = read_values(self._values)
        found = read_kubernetes_plan(
            plan, base, self._release.name, self._release.namespace, self._release.apis
        )
        self.backend.know(found)
        return found

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        """Replicas that `plan` wants; without a need of today's, by the plan's own."""
        found = self.read(plan)
        return found.desired(need_rps or found.rates_rps)


def read_values(path: Path) -> Values:
    found = parse_yaml(read_text(path, MAX_BYTES), str(path))
    if not isinstance(found, dict):
        raise BadInput(str(path), "has no values", "name a file with those of the release")
    return found
