"""State of a replica as the cluster's objects show it, and what keeps it from starting. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from cascadia.controller.kubernetes.desired import ADMITTED, DRAINING, KIND, ONLY_ON, REPLICA, PoolGpus
from cascadia.controller.move.state import Kind, Machine, Replica, State
from cascadia.render.kubernetes.release import SERVES

Document = Mapping[str, Any]

MOST_CRASHES = 5
"""Then nothing but a change will help."""

_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


class Trouble(NamedTuple):
    """Reason why a replica does not start. `passes`: never by itself, perhaps soon, or when a node has room."""

    what: str
    passes: Literal["never", "soon", "with room"]


def replica_of(workload: Document, pods: Iterable[Document], nodes: Iterable[Document]) -> Replica:
    """`pods` are those of the workload. One whose node has gone seems ready until somebody deletes it."""
    nodes = list(nodes)
    pods = [pod for pod in pods if not lost(pod, nodes)]
    said = workload["metadata"]["annotations"]
    trouble = trouble_of(workload, pods)
    state: State = "starting"
    if leaves(workload):
        state = "failed"  # on its way out: there is no way back
    elif DRAINING in said:
        state = "draining"
    elif trouble is not None and trouble.passes == "never":
        state = "failed"
    elif ADMITTED in said and any(serves(pod) for pod in pods):
        state = "ready"
    elif ONLY_ON in said and not any(n["metadata"]["name"] == said[ONLY_ON] for n in nodes if _takes_pods(n)):
        state = "failed"  # it can start nowhere else
    on = tuple(pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"])
    return Replica(said[REPLICA], kind_of(workload), state, on=on)


def kind_of(workload: Document) -> Kind:
    return Kind(**json.loads(workload["metadata"]["annotations"][KIND]))


def serves(pod: Document) -> bool:
    """Tells whether this is the pod that serves, and the kubelet finds it ready."""
    return SERVES in pod["metadata"]["labels"] and ready(pod)


def leaves(found: Document) -> bool:
    """Tells whether it is being deleted."""
    return "deletionTimestamp" in found["metadata"]


def ready(pod: Document) -> bool:
    """One that is being deleted does not count."""
    said = _condition(pod, "Ready").get("status") == "True"
    return said and not leaves(pod)


def ready_for_s(pods: Iterable[Document], now_s: float) -> float:
    """Seconds for which the serving pod has been ready, by its kubelet's clock; 0 where that is ahead of ours."""
    for pod in pods:
        since = _condition(pod, "Ready").get("lastTransitionTime")
        if serves(pod) and since is not None:
            return max(0.0, now_s - datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp())
    return 0.0


def trouble_of(workload: Document, pods: Iterable[Document]) -> Trouble | None:
    """The worst trouble, if anything is wrong."""
    found = [trouble for pod in pods if (trouble := _of_pod(pod)) is not None]
    refused = _condition(workload, "ReplicaFailure")
    if refused.get("status") == "True":
        found.append(Trouble(f"no pod may be made: {refused.get('message', '')}", "soon"))
    return min(found, key=lambda t: ("never", "soon", "with room").index(t.passes), default=None)


def beside(replicas: Iterable[tuple[Replica, Iterable[Document]]]) -> tuple[Replica, ...]:
    """Replicas with the GPUs that are taken on each one's node; a node's place in order tells it from others as
    full.
    """
    placed = [(replica, _node(pods)) for replica, pods in replicas]
    taken: dict[str, int] = {}
    for replica, node in placed:
        taken[node] = taken.get(node, 0) + replica.kind.gpus
    order = {node: place for place, node in enumerate(sorted(taken))}
    return tuple(replace(r, company=taken[node] * len(order) + order[node]) for r, node in placed)


def _node(pods: Iterable[Document]) -> str:
    return next((str(pod["spec"]["nodeName"]) for pod in pods if "nodeName" in pod["spec"]), "")


def machines_of(pools: Mapping[str, PoolGpus], nodes: Iterable[Document]) -> dict[str, Machine]:
    """Nodes with GPUs that are ready and not cordoned."""
    found = {}
    for node in filter(_takes_pods, nodes):
        product = node["metadata"].get("labels", {})
        here = {n: p for n, p in pools.items() if product.get(p.label) in p.products}
        gpus = max((_gpus(node, pool.resource) for pool in here.values()), default=0)
        if gpus:
            found[node["metadata"]["name"]] = Machine(gpus, frozenset(here))
    return found


def _takes_pods(node: Document) -> bool:
    cordoned = node.get("spec", {}).get("unschedulable", False)
    return not cordoned and _condition(node, "Ready").get("status") == "True"


def _gpus(node: Document, resource: str) -> int:
    return int(node["status"].get("allocatable", {}).get(resource, 0))


def gpus_there(pools: Mapping[str, PoolGpus], nodes: Iterable[Document]) -> dict[str, int]:
    """GPUs by pool on nodes that are ready and not cordoned. Pools of one product share its nodes, in their
    order.
    """
    left: dict[tuple[str, str], int] = {}
    for node in filter(_takes_pods, nodes):
        about = node["metadata"].get("labels", {})
        for label, resource in {(pool.label, pool.resource) for pool in pools.values()}:
            key = about.get(label, ""), resource
            left[key] = left.get(key, 0) + _gpus(node, resource)
    there = {}
    for name, pool in pools.items():
        taken = 0
        for product in sorted(pool.products):
            key = product, pool.resource
            share = min(pool.most - taken, left.get(key, 0))
            left[key] = left.get(key, 0) - share
            taken += share
        there[name] = taken
    return there


def lost(pod: Document, nodes: Iterable[Document]) -> bool:
    """Tells whether no kubelet will say that the pod has ended: its node is gone, or does not answer."""
    name = pod["spec"].get("nodeName")
    node = next((node for node in nodes if node["metadata"]["name"] == name), None)
    return name is not None and (node is None or _condition(node, "Ready").get("status") != "True")


def _of_pod(pod: Document) -> Trouble | None:
    name = pod["metadata"]["name"]
    if leaves(pod):
        return None
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        ended = container.get("lastState", {}).get("terminated", {})
        if container.get("restartCount", 0) >= MOST_CRASHES and not container.get("ready"):
            why = f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode', '?')}"
            return Trouble(f"{name} has ended {container['restartCount']} times ({why})", "never")
        if reason in (*_IMAGE, *_CONTAINER):
            return Trouble(f"{name}: {reason}: {message or container['image']}", "soon")
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return Trouble(f"{name} finds no node: {scheduled.get('message', '')}", "with room")
    return None


def _condition(found: Document, kind: str) -> Mapping[str, str]:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind), {})
