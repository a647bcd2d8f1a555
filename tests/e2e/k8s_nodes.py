"""Simulated nodes with GPUs: pods that are scheduled onto them become ready, and ones that are deleted go.

`python -m tests.e2e.k8s_nodes URL TOKEN PRODUCT/NAME=GPUS ...` until it is killed. No container runs.
"""

import sys
import time
from datetime import UTC, datetime
from typing import Any

import httpx

LOOK_S = 0.3
HEARTBEAT_S = 10.0
PATCH = {"content-type": "application/strategic-merge-patch+json"}


def main(url: str, token: str, *nodes: str) -> None:
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, verify=False, timeout=20) as client:
        for node in nodes:
            _make(client, node)
        beaten_s = 0.0
        while True:
            if time.monotonic() - beaten_s > HEARTBEAT_S:
                for node in nodes:
                    _beat(client, node)
                beaten_s = time.monotonic()
            for pod in client.get("/api/v1/pods").json()["items"]:
                _step(client, pod)
            time.sleep(LOOK_S)


def _make(client: httpx.Client, node: str) -> None:
    product, name = node.partition("=")[0].split("/")
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    client.post("/api/v1/nodes", json=body).raise_for_status()


def _beat(client: httpx.Client, node: str) -> None:
    name, _, gpus = node.partition("/")[2].partition("=")
    room = {"cpu": "192", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": gpus}
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastHeartbeatTime": _now()}
    status = {"capacity": room, "allocatable": room, "conditions": [{**ready, "lastTransitionTime": _now()}]}
    client.patch(f"/api/v1/nodes/{name}/status", headers=PATCH, json={"status": status}).raise_for_status()


def _step(client: httpx.Client, pod: dict[str, Any]) -> None:
    about = pod["metadata"]
    path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
    if not pod["spec"].get("nodeName"):
        return
    if about.get("deletionTimestamp"):
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
        client.request("DELETE", path, json=body)
    elif pod["status"].get("phase") == "Pending":
        client.patch(f"{path}/status", headers=PATCH, json={"status": _running(pod)})


def _running(pod: dict[str, Any]) -> dict[str, Any]:
    kinds = ("Initialized", "PodScheduled", "ContainersReady", "Ready")
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _now()}},
        }
        for container in pod["spec"]["containers"]
    ]
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": _now()} for kind in kinds]
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": conditions,
        "containerStatuses": containers,
        "podIP": "10.2.0.1",
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(*sys.argv[1:])
