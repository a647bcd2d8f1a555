"""The targets a plan can be rendered for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from cascadia.domain.cluster import Cluster
from cascadia.domain.plan import Plan
from cascadia.render.compose import compose_yaml
from cascadia.render.engine_groups import engine_groups
from cascadia.render.helm_values import helm_values, helm_values_yaml
from cascadia.render.kubernetes import kubernetes_yaml
from cascadia.render.kubernetes.chart_values import merged
from cascadia.render.local import local_json

Target = Literal["kubernetes", "compose", "local", "helm-values"]

FILE_NAMES: dict[Target, str] = {
    "kubernetes": "kubernetes.yaml",
    "compose": "compose.yaml",
    "local": "processes.json",
    "helm-values": "helm-values.yaml",
}
"""What each target's file is called in a plan's directory."""


NAMESPACE = "cascadia"


def render(
    plan: Plan,
    cluster: Cluster,
    target: Target,
    *,
    namespace: str = NAMESPACE,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The text of one file. Equal arguments give equal text.

    `namespace` is of Kubernetes' objects; `values` are put over the plan's, as Helm does with its own.

    Raises `BadInput` where `cluster` does not hold the plan, or a name cannot stand in a manifest.
    """
    groups = engine_groups(plan, cluster)
    match target:
        case "kubernetes":
            return kubernetes_yaml(merged(helm_values(plan, groups), dict(values)), namespace)
        case "compose":
            return compose_yaml(groups)
        case "local":
            return local_json(groups)
        case "helm-values":
            return helm_values_yaml(plan, groups)
