"""The operator of LeaderWorkerSets, SIMULATED: it makes the pods of each group, and all anew when one of them fails.

Of the real one it has: a leader NAME-0 and workers NAME-0-1, ... with its labels and variables, owned by the set; a
group whose pod fails or is deleted is made again as a whole (RecreateGroupOnPodRestart); `readyReplicas`. Not: rolling
updates, StatefulSets in between, exclusive placement.
"""

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any

from tests.e2e.k8s_cluster import Cluster

LOOK_S = 0.2
SETS = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
LABEL = "leaderworkerset.sigs.k8s.io"


class Operator:
    def __init__(self, on: Cluster) -> None:
        self.on = on
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(LOOK_S):
            for found in self.on.get(SETS)["items"]:
                if "deletionTimestamp" not in found["metadata"]:
                    self._look(found)

    def _look(self, found: dict[str, Any]) -> None:
        about = found["metadata"]
        pods = f"/api/v1/namespaces/{about['namespace']}/pods"
        there = self.on.get(f"{pods}?labelSelector={LABEL}/name={about['name']}")["items"]
        size = found["spec"]["leaderWorkerTemplate"]["size"]
        ready = 0
        for group in range(found["spec"]["replicas"]):
            mine = [p for p in there if p["metadata"]["labels"][f"{LABEL}/group-index"] == str(group)]
            leaving = [p for p in mine if "deletionTimestamp" in p["metadata"]]
            failed = [p for p in mine if p["status"].get("phase") == "Failed"]
            if not mine:
                for rank in range(size):
                    self.on.ask("POST", pods, _pod(found, group, rank)).raise_for_status()
            elif leaving or failed or len(mine) < size:
                for pod in mine:
                    if pod not in leaving:
                        self.on.ask("DELETE", f"{pods}/{pod['metadata']['name']}")
            ready += len(mine) == size and all(map(_ready, mine))
        path = f"/apis/{found['apiVersion']}/namespaces/{about['namespace']}/leaderworkersets/{about['name']}/status"
        if found.get("status", {}).get("readyReplicas") != ready:
            merge = {"content-type": "application/merge-patch+json"}
            self.on.ask("PATCH", path, {"status": {"replicas": 1, "readyReplicas": ready}}, **merge)


def _pod(of: dict[str, Any], group: int, rank: int) -> dict[str, Any]:
    about, template = of["metadata"], of["spec"]["leaderWorkerTemplate"]
    made = copy.deepcopy(template["workerTemplate"] if rank else template["leaderTemplate"])
    leader = f"{about['name']}-{group}"
    variables = {
        "LWS_LEADER_ADDRESS": f"{leader}.{about['name']}.{about['namespace']}",
        "LWS_GROUP_SIZE": str(template["size"]),
        "LWS_WORKER_INDEX": str(rank),
    }
    for container in made["spec"]["containers"]:
        told = [{"name": name, "value": value} for name, value in variables.items()]
        container["env"] = told + container.get("env", [])
    owner = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": about["name"], "uid": about["uid"]}
    own = {"name": about["name"], "group-index": str(group), "worker-index": str(rank)}
    labels = made["metadata"].get("labels", {}) | {f"{LABEL}/{key}": value for key, value in own.items()}
    metadata = {
        **made["metadata"],
        "name": f"{leader}-{rank}" if rank else leader,
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def _ready(pod: dict[str, Any]) -> bool:
    said = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}
    return said.get("Ready") == "True"


@contextlib.contextmanager
def operating(on: Cluster) -> Iterator[None]:
    operator = Operator(on)
    thread = threading.Thread(target=operator.run)
    thread.start()
    try:
        yield
    finally:
        operator.ended.set()
        thread.join(30)
