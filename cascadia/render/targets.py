"""The targets a plan can be rendered for."""

from typing import Literal

from cascadia.domain.cluster import Cluster
from cascadia.domain.plan import Plan
from cascadia.render.compose import compose_yaml
from cascadia.render.engine_groups import engine_groups
from cascadia.render.helm_values import helm_values_yaml
from cascadia.render.kubernetes import kubernetes_yaml
from cascadia.render.local import local_json

Target = Literal["kubernetes", "compose", "local", "helm-values"]

FILE_NAMES: dict[Target, str] = {
    "kubernetes": "kubernetes.yaml",
    "compose": "compose.yaml",
    "local": "processes.json",
    "helm-values": "helm-values.yaml",
}
"""What each target's file is called in a plan's directory."""


def render(plan: Plan, cluster: Cluster, target: Target) -> str:
    """The text of one file. Equal plans and clusters give equal text.

    Raises `BadInput` where `cluster` does not hold the plan, or a name cannot stand in a manifest.
    """
    groups = engine_groups(plan, cluster)
    match target:
        case "kubernetes":
            return kubernetes_yaml(groups, plan.digest)
        case "compose":
            return compose_yaml(groups)
        case "local":
            return local_json(groups)
        case "helm-values":
            return helm_values_yaml(plan, groups)
