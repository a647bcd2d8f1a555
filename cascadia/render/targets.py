"""The targets a plan can be rendered for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Deployed, Plan
from cascadia.render.compose.file import compose_yaml
from cascadia.render.engine_groups import engine_groups
from cascadia.render.gpu_nodes import gpu_node
from cascadia.render.helm_values import helm_values, helm_values_yaml
from cascadia.render.kubernetes import kubernetes_yaml
from cascadia.render.kubernetes.chart_values import merged, whole_numbers
from cascadia.render.local import local_json
from cascadia.render.one_pass import in_one_pass, one_pass_json
from cascadia_sim.iteration.engine_config import LLAMA_CPP

Target = Literal["kubernetes", "compose", "local", "helm-values"]

FILE_NAMES: dict[Target, str] = {
    "kubernetes": "kubernetes.yaml",
    "compose": "compose.yaml",
    "local": "processes.json",
    "helm-values": "helm-values.yaml",
}
"""What each target's file is called in a plan's directory."""


NAMESPACE = "cascadia"


def targets_for(plan: Plan) -> tuple[Target, ...]:
    """Targets that `plan` can be rendered for: llama.cpp needs its file named and is not deployed to
    Kubernetes, nor is a GPU that no node label is known of, nor an API whose address is not; only llama.cpp is started
    on cores.
    """
    if in_one_pass(plan):
        return ("local",)
    every: list[Deployed] = [*plan.stages, plan.judge]
    units = [unit for unit in every if unit.gpus]
    llama_cpp = [unit for unit in units if unit.engine == LLAMA_CPP]
    if any(unit.weights is None for unit in llama_cpp):
        return ()
    cores = {pool.name for pool in plan.cluster.pools if pool.on_cores}
    on_cores = [unit for unit in units if any(group.pool in cores for group in unit.replicas)]
    if any(unit.engine != LLAMA_CPP for unit in on_cores):
        return ()
    pools = {group.pool for unit in units for group in unit.replicas}
    nameless = any(not gpu_node(plan.cluster.pool(name)).product for name in pools)
    unknown = any(s.external is not None and s.external.base_url is None for s in plan.stages)
    return ("compose", "local") if llama_cpp or nameless or unknown or not pools else get_args(Target)


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
    if in_one_pass(plan):
        if target != "local":
            raise BadInput(
                f"--target {target}",
                "cannot hold models that answer in one pass: a batch goes to one worker by its own address, and a "
                "Service has one for all",
                "write --target local, or run `cascadia up`",
            )
        return one_pass_json(plan)
    groups = engine_groups(plan, cluster)
    match target:
        case "kubernetes":
            return kubernetes_yaml(merged(helm_values(plan, groups), whole_numbers(dict(values))), namespace)
        case "compose":
            return compose_yaml(plan, groups)
        case "local":
            return local_json(groups)
        case "helm-values":
            return helm_values_yaml(plan, groups)
