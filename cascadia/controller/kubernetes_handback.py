"""Engines that the controller made become Helm's, and none of their pods is stopped for it.

The other way round of `kubernetes_takeover.py`: the replicas' Deployments and ReplicaSets go and leave their pods; a
Deployment for each group, as the chart has it, takes these one by one; and all that Helm will want to make bears its
marks, so that it takes them for its own.
"""

from collections.abc import Mapping
from typing import Any

from cascadia.clients.kubernetes_api import Document, KubernetesApi, Name
from cascadia.controller.kubernetes_plan import REPLICA, KubernetesPlan, Made, is_replicas
from cascadia.controller.kubernetes_pods import leaves, ready
from cascadia.controller.kubernetes_takeover import HASH, let_go, until
from cascadia.domain.errors import BadInput
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router import NAME as ROUTER
from cascadia.render.kubernetes.workloads import workload

_HELMS_DATA = {
    "manager": "helm",
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:router.yaml": {}}},
}
"""The chart writes the same settings in other words, which Helm 4 may do where they are its own."""


async def hand_back(api: KubernetesApi, plan: KubernetesPlan) -> int:
    """How many pods changed hands; may be done again. Raises `BadInput` where replicas are of several pods."""
    for made in plan.made.values():
        if made.group["podsPerReplica"] > 1:
            what = "is of several pods a replica, which cannot change hands while they run"
            raise BadInput(
                f"group {made.group['name']}", what, "move to a plan without such, or leave the controller on"
            )
    given = 0
    for made in plan.made.values():
        given += await _give_group(api, made)
        for document in made.shared():
            await _mark(api, plan.release, document["kind"], document["metadata"]["name"])
    await _mark(api, plan.release, "ConfigMap", plan.release.named(ROUTER), _HELMS_DATA)
    return given


async def _give_group(api: KubernetesApi, made: Made) -> int:
    release, group = made.release, made.group["name"]
    name = release.named(group)
    labels = release.selector(cascadia__workload=group)
    pods = [pod for pod in await api.all("Pod", labels) if not leaves(pod)]
    theirs = [pod for pod in pods if not is_replicas(pod) and ready(pod)]
    ours = [pod for pod in pods if is_replicas(pod)]
    # The group's Deployment would take their ReplicaSets for older ones of its own, and scale them down.
    for replica in sorted({pod["metadata"]["labels"][REPLICA] for pod in ours}):
        if await api.get("Deployment", replica) is not None:
            await let_go(api, "Deployment", replica)
        for found in await api.all("ReplicaSet", {REPLICA: replica}):
            await let_go(api, "ReplicaSet", found["metadata"]["name"])
    if await api.get("Deployment", name) is None:
        await api.apply(workload(release, made.unit, {**made.group, "replicas": 0}))
    await _mark(api, release, "Deployment", name)
    for count, pod in enumerate(ours, start=len(theirs) + 1):
        await api.merge("Deployment", name, {"spec": {"replicas": count}})
        await _adopt(api, labels, pod, count)
    return len(ours)


async def _adopt(api: KubernetesApi, labels: Mapping[str, str], pod: Document, count: int) -> None:
    """By the ReplicaSet with these labels, when it wants `count` pods: it would end one that is too many."""
    hashes: list[str] = []

    async def wants() -> bool:
        found = [one for one in await api.all("ReplicaSet", labels) if not is_replicas(one)]
        hashes[:] = [one["metadata"]["labels"][HASH] for one in found if one["spec"]["replicas"] == count]
        return bool(hashes)

    async def has() -> bool:
        pods = [one for one in await api.all("Pod", {**labels, HASH: hashes[0]}) if not is_replicas(one)]
        return sum(not leaves(one) for one in pods) == count

    group = labels["cascadia/workload"]
    await until(f"the ReplicaSet of {group} wants {count} pods", wants)
    told = {REPLICA: None, HASH: hashes[0]}
    await api.merge("Pod", pod["metadata"]["name"], {"metadata": {"labels": told}})
    await until(f"{group} has {count} pods", has)


async def _mark(
    api: KubernetesApi, release: Release, kind: Name, name: str, managed: Mapping[str, Any] | None = None
) -> None:
    """As Helm marks its own. That we have set its fields is forgotten (but for `managed`): Helm 4 would mind."""
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
