"""What is promised of a move, asserted of every state that the API server passes through."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.e2e.k8s_cluster import Cluster

Pod = dict[str, Any]


class Seen:
    """The most GPUs that pods held at once, by node and over all, and the fewest ready pods of each stage."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.most_by_node: dict[str, int] = {}
        self.most = 0
        self.fewest_ready: dict[str, int] = {}
        self.events = 0

    def take(self, kind: str, pod: Pod) -> None:
        self.events += 1
        if kind == "DELETED":
            self.pods.pop(pod["metadata"]["uid"], None)
        else:
            self.pods[pod["metadata"]["uid"]] = pod
        used: dict[str, int] = {}
        for found in self.pods.values():
            node = found["spec"].get("nodeName")
            if node is not None:
                used[node] = used.get(node, 0) + gpus(found)
        for node, count in used.items():
            self.most_by_node[node] = max(self.most_by_node.get(node, 0), count)
        self.most = max(self.most, sum(used.values()))
        for stage, count in self.ready().items():
            self.fewest_ready[stage] = min(self.fewest_ready.get(stage, count), count)

    def ready(self) -> Mapping[str, int]:
        """By the stage's label: pods that its Service sends to."""
        found: dict[str, int] = {}
        for pod in self.pods.values():
            labels = pod["metadata"].get("labels", {})
            if "cascadia/service" not in labels:
                continue
            conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}
            serves = labels.get("cascadia/serves") == "true" and "deletionTimestamp" not in pod["metadata"]
            stage = labels["cascadia/service"]
            found[stage] = found.get(stage, 0) + (serves and conditions.get("Ready") == "True")
        return found


def gpus(pod: Pod) -> int:
    limits = (container["resources"].get("limits", {}) for container in pod["spec"]["containers"])
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


@contextlib.contextmanager
def watching(on: Cluster, namespace: str) -> Iterator[Seen]:
    """Every change of a pod while the block runs, from the API server's own stream."""
    seen = Seen()
    path = f"/api/v1/namespaces/{namespace}/pods"
    start = on.get(path)
    for pod in start["items"]:
        seen.pods[pod["metadata"]["uid"]] = pod
    seen.fewest_ready = dict(seen.ready())
    headers = {"authorization": f"Bearer {on.token}"}
    version = start["metadata"]["resourceVersion"]
    with httpx.Client(base_url=on.url, headers=headers, verify=False, timeout=None) as client:
        # Unless told otherwise a server ends a watch after half an hour to an hour.
        told = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "86400"}
        request = client.build_request("GET", path, params=told)
        stream = client.send(request, stream=True)

        def read() -> None:
            with contextlib.suppress(httpx.HTTPError):
                for line in stream.iter_lines():
                    event = json.loads(line)
                    seen.take(event["type"], event["object"])

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield seen
            assert thread.is_alive(), "the watch ended early: not every change was seen"
        finally:
            _end(stream)
            thread.join(60)
            assert not thread.is_alive(), "the watch reads on"
            stream.close()


def _end(stream: httpx.Response) -> None:
    """The end of a stream that another thread reads. Closed under it, its descriptor's number would be that of the
    next connection, of which the thread would read on (`DECRYPTION_FAILED_OR_BAD_RECORD_MAC` there)."""
    connection = stream.extensions["network_stream"].get_extra_info("socket")
    with contextlib.suppress(OSError):  # ended by the other side already
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
