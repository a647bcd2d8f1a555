"""Engines that the controller made become Helm's, and none of their pods is stopped for it.

The other way round of `adopt_from_helm.py`: the replicas' Deployments and ReplicaSets go and leave their pods; a
Deployment for each group, as the chart has it, takes these one by one; and all that Helm will want to make bears its
marks, so that it takes them for its own. Then routers are told the chart's Services, which these pods are in.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cascadia.clients.cluster.kubernetes_api import Document, KubernetesApi, Name
from cascadia.controller.kubernetes.adopt_from_helm import HASH, let_go, until
from cascadia.controller.kubernetes.desired import REPLICA, KubernetesPlan, is_replicas, revised
from cascadia.controller.kubernetes.pods import leaves, ready
from cascadia.controller.kubernetes.routers import IN_FORCE, Routers
from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes.chart_values import merged
from cascadia.render.kubernetes.engines.units import Group, Unit, slots, units
from cascadia.render.kubernetes.engines.workloads import slot_selector, unit_objects, workload
from cascadia.render.kubernetes.release import SLOT, Release
from cascadia.render.kubernetes.router import NAME as ROUTER
from cascadia.render.kubernetes.router_config import router_config

_HELMS_DATA = {
    "manager": "helm",
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:router.yaml": {}}},
}
"""The chart writes the same settings in other words, which Helm 4 may do where they are its own."""


async def hand_back(api: KubernetesApi, plan: KubernetesPlan) -> int:
    """Hands engines to Helm and returns how many pods changed hands; may be done again. Raises `BadInput` where
    replicas are of several pods.
    """
    for made in plan.made.values():
        if made.group["podsPerReplica"] > 1:
            what = "is of several pods a replica, which cannot change hands while they run"
            raise BadInput(
                f"group {made.group['name']}", what, "move to a plan without such, or leave the controller on"
            )
    release = replace(plan.release, values=merged(plan.release.values, {"controller": {"enabled": False}}))
    given = 0
    for unit in units(release.values):
        for slot, group in slots(unit):
            given += await _give_group(api, release, unit, slot, group)
        for document in unit_objects(release, unit):
            await api.apply(document)
            await _mark(api, release, document["kind"], document["metadata"]["name"])
    await _reach(api, plan, release)
    await _mark(api, release, "ConfigMap", release.named(ROUTER), _HELMS_DATA)
    return given


async def _reach(api: KubernetesApi, plan: KubernetesPlan, release: Release) -> None:
    """Routers ask the chart's Services, and ours are no more."""
    document = router_config(release)
    # What routers read at their start alone stays as it is until they are replaced.
    if "samples" in (before := router_config(plan.release)):
        document["samples"] = before["samples"]
    owner = await api.owner("Service", release.named(ROUTER))
    await Routers(api, release).tell(revised(document), owner, plan.routing)
    # A controller that is turned on again has to tell them its own.
    await api.merge("ConfigMap", release.named(ROUTER), {"metadata": {"annotations": {IN_FORCE: None}}})
    theirs = {
        one["metadata"]["name"] for unit in units(release.values) for one in unit_objects(release, unit)
    }
    for found in await api.all("Service", release.selector() | {"cascadia/service": None}):
        if found["metadata"]["name"] not in theirs:
            await api.delete("Service", found["metadata"]["name"])


async def _give_group(api: KubernetesApi, release: Release, unit: Unit, slot: str, group: Group) -> int:
    name, labels = release.named(slot), slot_selector(release, slot)
    pods = [pod for pod in await api.all("Pod", labels) if not leaves(pod)]
    theirs = [pod for pod in pods if not is_replicas(pod) and ready(pod)]
    made = await api.all("Pod", release.selector(cascadia__workload=group["name"]) | {REPLICA: None})
    ours = [pod for pod in made if not leaves(pod)]
    for replica in sorted({pod["metadata"]["labels"][REPLICA] for pod in ours}):
        if await api.get("Deployment", replica) is not None:
            await let_go(api, "Deployment", replica)
        for found in await api.all("ReplicaSet", {REPLICA: replica}):
            await let_go(api, "ReplicaSet", found["metadata"]["name"])
    if await api.get("Deployment", name) is None:
        empty = workload(release, unit, group, slot)
        empty["spec"]["replicas"] = 0
        await api.apply(empty)
    await _mark(api, release, "Deployment", name)
    for count, pod in enumerate(ours, start=len(theirs) + 1):
        await api.merge("Deployment", name, {"spec": {"replicas": count}})
        await _adopt(api, labels, pod, count)
    return len(ours)


async def _adopt(api: KubernetesApi, labels: Mapping[str, str], pod: Document, count: int) -> None:
    """Lets the ReplicaSet with these labels adopt the pod, once it wants `count` pods: it would end one that is
    too many.
    """
    hashes: list[str] = []

    async def wants() -> bool:
        found = [one for one in await api.all("ReplicaSet", labels) if not is_replicas(one)]
        hashes[:] = [one["metadata"]["labels"][HASH] for one in found if one["spec"]["replicas"] == count]
        return bool(hashes)

    async def has() -> bool:
        pods = [one for one in await api.all("Pod", {**labels, HASH: hashes[0]}) if not is_replicas(one)]
        return sum(not leaves(one) for one in pods) == count

    await until(f"the ReplicaSet of {labels[SLOT]} wants {count} pods", wants)
    told = {REPLICA: None, HASH: hashes[0], SLOT: labels[SLOT]}
    await api.merge("Pod", pod["metadata"]["name"], {"metadata": {"labels": told}})
    await until(f"{labels[SLOT]} has {count} pods", has)


async def _mark(
    api: KubernetesApi, release: Release, kind: Name, name: str, managed: Mapping[str, Any] | None = None
) -> None:
    """Marks an object as Helm marks its own. That we have set its fields is forgotten (but for `managed`): Helm
    4 would mind.
    """
    about: dict[str, Any] = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": release.name,
            "meta.helm.sh/release-namespace": release.namespace,
            "helm.sh/resource-policy": None,
        },
        "ownerReferences": None,
        "managedFields": [dict(managed or {})],
    }
    await api.merge(kind, name, {"metadata": about})
