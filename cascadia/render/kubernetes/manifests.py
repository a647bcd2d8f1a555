"""All objects of a plan in the order in which they are to be applied."""

from collections.abc import Iterator, Sequence
from typing import Any

from cascadia.render.engine_groups import EngineGroup
from cascadia.render.kubernetes.services import disruption_budget, service
from cascadia.render.kubernetes.workloads import workload
from cascadia.render.yaml_text import yaml_text


def kubernetes_yaml(groups: Sequence[EngineGroup], digest: str) -> str:
    return yaml_text(manifests(groups, digest))


def manifests(groups: Sequence[EngineGroup], digest: str) -> Iterator[dict[str, Any]]:
    """Workloads come with the largest pods first: small ones would scatter and leave no node whole."""
    for group in {group.service: group for group in groups}.values():
        yield service(group, digest)
        yield disruption_budget(group, digest)
    for group in sorted(groups, key=lambda g: -g.gpus_per_rank):
        yield workload(group, digest)
