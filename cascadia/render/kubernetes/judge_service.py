"""An embedding judge: a service on CPUs. (An LLM judge is an engine; a certainty judge needs nothing.)"""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import service_ports
from cascadia.render.kubernetes.own_service import Mounted, own_deployment
from cascadia.render.kubernetes.release import Release

NAME = "judge"
_GRACE_S = 60


def judge_service(release: Release) -> Iterator[dict[str, Any]]:
    judge = release.values["judge"]
    if judge["kind"] != "embedding" or judge["url"]:
        return
    matching = release.selector(cascadia__workload=NAME)
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": release.metadata(NAME, NAME),
        "spec": {"type": "ClusterIP", "selector": matching, "ports": service_ports()},
    }
    yield {
        "apiVersion": release.first("policy/v1", "policy/v1beta1"),
        "kind": "PodDisruptionBudget",
        "metadata": release.metadata(NAME, NAME),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": matching}},
    }
    service = judge["service"]
    yield own_deployment(
        release, NAME, service, account=release.full_name, mounted=_head(service["head"]), grace_s=_GRACE_S
    )


def _head(head: dict[str, str]) -> list[Mounted]:
    """The trained head and the encoder's weights, from a claim; without one the image has to hold them."""
    if not head["claimName"]:
        return []
    claim = {"claimName": head["claimName"], "readOnly": True}
    return [({"name": "head", "persistentVolumeClaim": claim}, "/judge")]
