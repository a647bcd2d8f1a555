"""A unit's objects: a PodDisruptionBudget, and per group a Service and a Deployment or LeaderWorkerSet."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import service_ports
from cascadia.render.kubernetes.engine_labels import (
    group_metadata,
    group_selector,
    unit_metadata,
    unit_selector,
)
from cascadia.render.kubernetes.engine_pods import engine_pod
from cascadia.render.kubernetes.release import SERVES, Release
from cascadia.render.kubernetes.units import Group, Unit

# The plan uses the GPUs it has: a replica's successor has no place before the replica has left.
_ROLLING = {"maxSurge": 0, "maxUnavailable": 1}


def unit_objects(release: Release, unit: Unit) -> Iterator[dict[str, Any]]:
    yield _disruption_budget(release, unit)
    for group in unit["groups"]:
        yield _service(release, unit, group)


def service_name(release: Release, group: Group) -> str:
    """Not the workload's own: LeaderWorkerSet makes a headless Service of that name."""
    return release.named(f"{group['name']}-http")


def workload(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    make = _deployment if group["podsPerReplica"] == 1 else _leader_worker_set
    return make(release, unit, group)


def _service(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    """Headless: its name stands for the address of each ready pod, which routers look up."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": unit_metadata(release, unit, f"{group['name']}-http"),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {**group_selector(release, group), SERVES: "true"},
            "ports": service_ports(),
        },
    }


def _disruption_budget(release: Release, unit: Unit) -> dict[str, Any]:
    """One pod at a time, over all groups: a drained node goes on, a stage with two replicas keeps one.

    `minAvailable` would block a drain for good where a stage has a single replica.
    """
    return {
        "apiVersion": release.first("policy/v1", "policy/v1beta1"),
        "kind": "PodDisruptionBudget",
        "metadata": unit_metadata(release, unit, unit["name"]),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": unit_selector(release, unit)}},
    }


def _deployment(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": group_metadata(release, unit, group),
        "spec": {
            "replicas": group["replicas"],
            "selector": {"matchLabels": group_selector(release, group)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": dict(_ROLLING)},
            "progressDeadlineSeconds": release.values["engines"]["startupSeconds"] + 300,
            "revisionHistoryLimit": 3,
            "template": engine_pod(release, unit, group, serves=True),
        },
    }


def _leader_worker_set(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    """A replica whose pods cannot go on alone: when one restarts, all do."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": group_metadata(release, unit, group),
        "spec": {
            "replicas": group["replicas"],
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": dict(_ROLLING)},
            "leaderWorkerTemplate": {
                "size": group["podsPerReplica"],
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": engine_pod(release, unit, group, serves=True),
                "workerTemplate": engine_pod(release, unit, group, serves=False),
            },
        },
    }
