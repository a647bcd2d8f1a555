"""A unit's objects: a PodDisruptionBudget, and per group a Service and a Deployment or LeaderWorkerSet.

Workloads of the chart are named after the place of a group in its unit (`small-0`), not after its shape: so another
plan is a rolling update of the same object, whose old pods serve on until new ones do, whoever applies it. A controller
makes a workload for each replica and names these, and their Services, after the group.
"""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import service_ports
from cascadia.render.kubernetes.engines.labels import (
    group_metadata,
    group_selector,
    unit_metadata,
    unit_selector,
)
from cascadia.render.kubernetes.engines.pods import engine_pod
from cascadia.render.kubernetes.engines.units import Group, Unit, slots
from cascadia.render.kubernetes.release import SERVES, SLOT, Release

Selector = dict[str, str]


def unit_objects(release: Release, unit: Unit) -> Iterator[dict[str, Any]]:
    yield _disruption_budget(release, unit)
    for name, selector, _ in reached(release, unit):
        yield _service(release, unit, name, selector)


def reached(release: Release, unit: Unit) -> Iterator[tuple[str, Selector, Group]]:
    """Addresses that routers ask for each group: the name of its Service, which pods that has, and the group.

    The Service is not of the workload's own name: LeaderWorkerSet makes a headless Service of that.
    """
    for slot, group in slots(unit):
        if release.values["controller"]["enabled"]:
            yield f"{group['name']}-http", group_selector(release, group), group
        else:
            yield f"{slot}-http", slot_selector(release, slot), group


def slot_selector(release: Release, slot: str) -> Selector:
    return release.selector() | {SLOT: slot}


def workload(release: Release, unit: Unit, group: Group, slot: str = "") -> dict[str, Any]:
    """Workload of the chart where it has a `slot`, else of a controller."""
    make = _deployment if group["podsPerReplica"] == 1 else _leader_worker_set
    found = make(release, unit, group)
    if slot:
        _put_in(release, found, slot)
    return found


def _put_in(release: Release, found: dict[str, Any], slot: str) -> None:
    about, spec = found["metadata"], found["spec"]
    about["name"] = release.named(slot)
    about["labels"] |= {SLOT: slot}
    if "template" in spec:
        spec["selector"]["matchLabels"] = slot_selector(release, slot)
        templates = [spec["template"]]
    else:
        ranks = spec["leaderWorkerTemplate"]
        templates = [ranks["leaderTemplate"], ranks["workerTemplate"]]
    for template in templates:
        template["metadata"]["labels"] |= {SLOT: slot}


def _service(release: Release, unit: Unit, name: str, selector: Selector) -> dict[str, Any]:
    """Headless: its name stands for the address of each ready pod, which routers look up."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": unit_metadata(release, unit, name),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {**selector, SERVES: "true"},
            "ports": service_ports(),
        },
    }


def _disruption_budget(release: Release, unit: Unit) -> dict[str, Any]:
    """One pod at a time, over all groups; the pods of a stage's only replica not at all, until another serves."""
    sizes = [group["podsPerReplica"] for group in unit["groups"] for _ in range(group["replicas"])]
    return {
        "apiVersion": release.first("policy/v1", "policy/v1beta1"),
        "kind": "PodDisruptionBudget",
        "metadata": unit_metadata(release, unit, unit["name"]),
        "spec": {
            "minAvailable": least_available(sizes),
            "selector": {"matchLabels": unit_selector(release, unit)},
        },
    }


def least_available(sizes: list[int]) -> int:
    """Pods that disruptions leave of replicas of so many pods each: all of an only one, and of several all but one."""
    return sum(sizes) - (len(sizes) > 1)


def _rolling(release: Release, unit: Unit, group: Group) -> dict[str, int]:
    """A group's last replica is not taken before a successor serves, unless the user says so of its unit."""
    upgrade = release.values["engines"]["upgrade"]
    replicas = group["replicas"]
    unavailable = min(upgrade["maxUnavailable"], max(0, replicas - 1))
    if unit["name"] in upgrade["takeLast"]:
        unavailable = replicas
    # Kubernetes refuses 0 of both.
    return {"maxSurge": max(upgrade["maxSurge"], 0 if unavailable else 1), "maxUnavailable": unavailable}


def _deployment(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": group_metadata(release, unit, group),
        "spec": {
            "replicas": group["replicas"],
            "selector": {"matchLabels": group_selector(release, group)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling(release, unit, group)},
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
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": _rolling(release, unit, group),
            },
            "leaderWorkerTemplate": {
                "size": group["podsPerReplica"],
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": engine_pod(release, unit, group, serves=True),
                "workerTemplate": engine_pod(release, unit, group, serves=False),
            },
        },
    }
