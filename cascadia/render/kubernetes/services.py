"""What a stage has once, whatever its groups: a Service and a PodDisruptionBudget."""

from typing import Any

from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import HTTP_PORT
from cascadia.render.kubernetes.metadata import SERVES, metadata, stage_selector


def service(group: EngineGroup, digest: str) -> dict[str, Any]:
    """Reaches every replica of the stage evenly; the groups' shares are for a router to keep."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(group, group.service, digest),
        "spec": {
            "type": "ClusterIP",
            "selector": {**stage_selector(group), SERVES: "true"},
            "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def disruption_budget(group: EngineGroup, digest: str) -> dict[str, Any]:
    """One pod at a time, over all groups: a drained node goes on, a stage with two replicas keeps one.

    `minAvailable` would block a drain for good where a stage has a single replica.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(group, group.service, digest),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": stage_selector(group)}},
    }
