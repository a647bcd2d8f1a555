"""Engines that Helm made become the controller's, and none of their pods is stopped for it.

Helm has a Deployment of several pods for each group, the controller one for each replica. So a Deployment of Helm's
and its ReplicaSets are deleted, and their pods stay behind, serving. Each then gets a Deployment of its own, whose
ReplicaSet takes the pod for its own by the labels. For a moment that has two pods then, one of them new: it deletes the
one that is not ready. Whoever dies meanwhile leaves pods without owner, which the next takes up.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from cascadia.clients.cluster.kubernetes_api import ApiFailed, Document, KubernetesApi, Name
from cascadia.controller.kubernetes.desired import ADMITTED, REPLICA, KubernetesPlan, Made, is_replicas, owned
from cascadia.controller.kubernetes.pods import leaves, ready
from cascadia.controller.move.state import Kind
from cascadia.domain.errors import BadInput

HASH = "pod-template-hash"
LOOK_S = 0.2
MOST_S = 60.0
"""For the cluster's own controllers to do one thing."""


async def take_over(api: KubernetesApi, plan: KubernetesPlan, owner: Document) -> int:
    """Takes over Helm's pods and returns their number. Raises `BadInput` where they are not those of `plan`,
    before anything is changed.
    """
    labels = plan.release.selector() | {"cascadia/service": None}
    theirs = [found for found in await api.all("Deployment", labels) if not is_replicas(found)]
    sets = [found for found in await api.all("LeaderWorkerSet", labels) if not is_replicas(found)]
    if sets:
        name = sets[0]["metadata"]["name"]
        what = "is Helm's, and replicas over several nodes cannot change hands while they run"
        raise BadInput(f"LeaderWorkerSet {name}", what, f"kubectl delete leaderworkerset {name}")
    pods = [pod for pod in await api.all("Pod", labels) if not is_replicas(pod) and not leaves(pod)]
    for pod in pods:
        made_for(plan, pod)
    for found in theirs:
        await let_go(api, "Deployment", found["metadata"]["name"])
    for found in await api.all("ReplicaSet", labels):
        if not is_replicas(found):
            await let_go(api, "ReplicaSet", found["metadata"]["name"])
    taken = {about["annotations"][REPLICA] for about in await _replicas(api, labels)}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        kind, made = made_for(plan, pod)
        name = next(name for n in range(10_000) if (name := f"{kind.stage}-{n}") not in taken)
        taken.add(name)
        for document in made.shared():
            await api.apply(owned(document, owner))
        replica = made.replica(name, kind)
        if ready(pod):
            replica["metadata"]["annotations"][ADMITTED] = "true"
        await api.apply(owned(replica, owner))
        await _rehome(api, pod, replica["metadata"]["name"])
    return len(pods)


def made_for(plan: KubernetesPlan, pod: Document) -> tuple[Kind, Made]:
    """Kind that the pod of an engine has in `plan`, and how it is made. Raises `BadInput`."""
    group = pod["metadata"]["labels"]["cascadia/workload"]
    for kind, made in plan.made.items():
        if made.group["name"] == group:
            wanted = made.replica(f"{kind.stage}-0", kind)["spec"]["template"]["spec"]["containers"][0]
            running = pod["spec"]["containers"][0]
            if all((running.get(k) or []) == (wanted.get(k) or []) for k in ("image", "command", "args")):
                return kind, made
            what = "runs with other settings than the values say"
            instead = "change nothing else in the upgrade that turns the controller on"
            raise BadInput(f"pod {pod['metadata']['name']}", what, instead)
    raise BadInput(
        f"pod {pod['metadata']['name']}", f"is of {group}, and the plan has none", "give the plan that runs"
    )


async def _replicas(api: KubernetesApi, labels: Mapping[str, str | None]) -> list[Document]:
    found = [*await api.all("Deployment", labels), *await api.all("LeaderWorkerSet", labels)]
    return [one["metadata"] for one in found if is_replicas(one)]


async def let_go(api: KubernetesApi, kind: Name, name: str) -> None:
    """Deletes the object and leaves what it owned. It has gone when this returns."""
    await api.delete(kind, name, keeps=True)
    await until(f"{kind} {name} has gone", lambda: _gone(api, kind, name))


async def _gone(api: KubernetesApi, kind: Name, name: str) -> bool:
    return await api.get(kind, name) is None


async def _rehome(api: KubernetesApi, pod: Document, workload: str) -> None:
    """The pod is the one of `workload`, and another that this had is no more."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    found: list[Document] = []

    async def made() -> bool:
        found[:] = await api.all("ReplicaSet", {REPLICA: workload})
        return bool(found)

    async def alone() -> bool:
        pods = await api.all("Pod", {REPLICA: workload})
        return [one["metadata"]["uid"] for one in pods if not leaves(one)] == [uid]

    await until(f"{workload} has a ReplicaSet", made)
    labels = {REPLICA: workload, HASH: found[0]["metadata"]["labels"][HASH]}
    await api.merge("Pod", name, {"metadata": {"labels": labels}})
    await until(f"{name} is the pod of {workload}", alone)


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    until_s = time.monotonic() + MOST_S
    while not await holds():
        if time.monotonic() > until_s:
            raise ApiFailed(f"not within {MOST_S:.0f} s: {what}")
        await asyncio.sleep(LOOK_S)
