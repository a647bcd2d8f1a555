"""Autoscaler of the router with its own load. Engines are not scaled so: their number is the plan's."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.release import Release

_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_DOWN = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
}
"""One router at a time: each has answers to finish."""


def scaling(release: Release) -> Iterator[dict[str, Any]]:
    if release.values["keda"]["enabled"]:
        yield _scaled_object(release)
    elif release.values["router"]["autoscaling"]["enabled"]:
        yield _autoscaler(release)


def _target(release: Release) -> dict[str, str]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": release.named("router")}


def _autoscaler(release: Release) -> dict[str, Any]:
    """A router is one process of one core; requests under way need an adapter for the metrics of pods."""
    found = release.values["router"]["autoscaling"]
    utilisation = {"type": "Utilization", "averageUtilization": found["cpuPercent"]}
    metrics: list[dict[str, Any]] = [{"type": "Resource", "resource": {"name": "cpu", "target": utilisation}}]
    if found["inFlightPerPod"]:
        target = {"type": "AverageValue", "averageValue": str(found["inFlightPerPod"])}
        metrics.append({"type": "Pods", "pods": {"metric": {"name": "cascadia_in_flight"}, "target": target}})
    return {
        "apiVersion": release.first("autoscaling/v2", "autoscaling/v2beta2"),
        "kind": "HorizontalPodAutoscaler",
        "metadata": release.metadata("router", "router"),
        "spec": {
            "scaleTargetRef": _target(release),
            "minReplicas": found["minReplicas"],
            "maxReplicas": found["maxReplicas"],
            "metrics": metrics,
            "behavior": {"scaleUp": _UP, "scaleDown": _DOWN},
        },
    }


def _scaled_object(release: Release) -> dict[str, Any]:
    keda, found = release.values["keda"], release.values["router"]["autoscaling"]
    query = f'sum(cascadia_in_flight{{namespace="{release.namespace}",service="{release.named("router")}"}})'
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": release.metadata("router", "router"),
        "spec": {
            "scaleTargetRef": _target(release),
            "minReplicaCount": found["minReplicas"],
            "maxReplicaCount": found["maxReplicas"],
            "pollingInterval": keda["pollingSeconds"],
            "cooldownPeriod": keda["cooldownSeconds"],
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": _UP, "scaleDown": _DOWN}}},
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": keda["prometheusAddress"],
                        "query": query,
                        "threshold": str(keda["inFlightPerPod"]),
                    },
                }
            ],
        },
    }
