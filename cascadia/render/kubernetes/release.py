"""Release as the chart's templates see it: the release's name and namespace, its values, the cluster's APIs."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from cascadia.render.kubernetes.chart_values import Values
from cascadia.render.names import LONGEST_LABEL

MONITORING = "monitoring.coreos.com/v1"
RULES = f"{MONITORING}/PrometheusRule"
"""Some clusters have one of the operator's kinds without the other."""

BUILT_IN = frozenset({"policy/v1", "autoscaling/v2"})
"""Of Kubernetes 1.25 and newer."""

SERVES = "cascadia/serves"
"""Marks the pods that answer HTTP: the first rank of each replica."""

SLOT = "cascadia/slot"
"""Of the chart's workloads and their pods: the place of a group in its stage, which outlives the group's shape."""


@dataclass(frozen=True, slots=True)
class Release:
    """`values` are whole: the plan's over the chart's."""

    values: Values
    name: str = "cascadia"
    namespace: str = "cascadia"
    apis: frozenset[str] = field(default=BUILT_IN)

    @property
    def full_name(self) -> str:
        """The release's own unless a user has another. A Service's begins with a letter."""
        name = self.name.replace(".", "-")
        return str(self.values["fullnameOverride"] or (f"cascadia-{name}" if name[0].isdigit() else name))

    def named(self, stem: str) -> str:
        """The name of an object, short enough for what controllers append to it."""
        whole = f"{self.full_name}-{stem}"
        if len(whole) <= LONGEST_LABEL:
            return whole
        return f"{whole[:45].removesuffix('-')}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"

    def first(self, *versions: str) -> str:
        """The first of `versions` that the cluster has, or else the last."""
        return next((version for version in versions if version in self.apis), versions[-1])

    def selector(self, **labels: str) -> dict[str, str]:
        """Labels of this release's own pods. A double underscore stands for a slash."""
        found = {"app.kubernetes.io/instance": self.name}
        return found | {name.replace("__", "/"): value for name, value in labels.items()}

    def labels(self, component: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/part-of": "cascadia",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": component,
        }

    def metadata(self, stem: str, component: str, **more: Any) -> dict[str, Any]:
        """Metadata of an object called after `stem`; without a stem, after the release alone."""
        return {
            "name": self.named(stem) if stem else self.full_name,
            "namespace": self.namespace,
            "labels": self.labels(component),
            **more,
        }
