"""Simulated nodes with GPUs, and their kubelets: a pod that is scheduled onto one starts, becomes ready, and ends.

`python -m tests.e2e.k8s_nodes FOLDER URL TOKEN STARTUP_S ROUTERS PRODUCT/NAME=GPUS ...` until it is killed.

No container runs: an engine is a server of this process (`k8s_engine.py`); a router is the real program where ROUTERS
is `real`, else a server that only says which router.yaml it has. What is kept as a kubelet keeps it: a ConfigMap
reaches a pod that changes at once and others after a while; a pod that is deleted serves on for its preStop hook, then
gets SIGTERM, and has its grace period. A node whose object is deleted is dead: its pods are left as they are. One that
is made again is alive, and starts anew what it had.
"""

import asyncio
import base64
import contextlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.k8s_command import run_once
from tests.e2e.k8s_engine import Engine
from tests.e2e.k8s_router import FakeRouter, RealRouter
from tests.e2e.k8s_services import Services

LOOK_S = 0.2
HEARTBEAT_S = 5.0
CONFIG_S = 20.0
"""A kubelet's: about a minute."""
PATCH = {"content-type": "application/strategic-merge-patch+json"}

Pod = dict[str, Any]


class Kubelets:
    def __init__(self, client: httpx.AsyncClient, folder: Path, startup_s: float, real_routers: bool) -> None:
        self.client = client
        self.folder = folder
        self.startup_s = startup_s
        self.real_routers = real_routers
        folder.mkdir(parents=True, exist_ok=True)
        self.services = Services(client, folder / "hosts.json")
        self.pods: dict[str, Pod] = {}
        self.running: dict[str, asyncio.Task[None]] = {}
        self.dead: set[str] = set()
        self.left: set[str] = set()
        self._addresses = 0

    async def run(self, nodes: list[str]) -> None:
        for node in nodes:
            await self._make(node)
        beaten_s = -HEARTBEAT_S
        now = asyncio.get_running_loop().time
        while True:
            if now() - beaten_s > HEARTBEAT_S:
                for node in nodes:
                    await self._beat(node)
                beaten_s = now()
            found = (await self.client.get("/api/v1/pods")).json()["items"]
            self.pods = {pod["metadata"]["uid"]: pod for pod in found if pod["spec"].get("nodeName")}
            for uid in self.pods:
                if uid not in self.running:
                    self.running[uid] = asyncio.create_task(self._live(uid))
            self.left &= self.pods.keys()
            for uid in [uid for uid in self.left if not self._lost(uid)]:
                self.left.discard(uid)
                self.running[uid] = asyncio.create_task(self._live_again(uid))
            for task in self.running.values():
                if task.done():
                    task.result()
            if self.real_routers:
                await self.services.look(self.pods.values())
            await asyncio.sleep(LOOK_S)

    async def _make(self, node: str) -> None:
        product, name = node.partition("=")[0].split("/")
        labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        (await self.client.post("/api/v1/nodes", json=body)).raise_for_status()

    async def _beat(self, node: str) -> None:
        name, _, gpus = node.partition("/")[2].partition("=")
        room = {"cpu": "192", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": gpus}
        ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastHeartbeatTime": _now()}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{**ready, "lastTransitionTime": _now()}],
        }
        answer = await self.client.patch(
            f"/api/v1/nodes/{name}/status", headers=PATCH, json={"status": status}
        )
        if answer.status_code == 404:
            self.dead.add(name)
        else:
            self.dead.discard(name)

    async def _live(self, uid: str) -> None:
        """One pod, from its node to its end."""
        pod = self.pods[uid]
        if _is_broken(pod):
            await self._status(pod, _cannot_pull(pod))
            await self._until_deleted(uid)
        elif pod["spec"]["restartPolicy"] == "Never":
            await self._status(pod, await run_once(pod, await self._environment(pod) or {}, self.services))
            await self._until_deleted(uid)
        else:
            process = self._process(pod)
            with contextlib.ExitStack() as stack:
                stack.callback(process.kill)
                if await self._start(uid, process):
                    await self._tend(uid, process)
                if self._lost(uid):
                    self.left.add(uid)
                    return
                await asyncio.sleep(_pre_stop_s(pod))
                await process.stop()
        about = pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self.client.request("DELETE", _path(about), json=body)

    async def _live_again(self, uid: str) -> None:
        """A pod whose node was away: it is not ready before it has started once more."""
        kinds = ("ContainersReady", "Ready")
        conditions = [{"type": kind, "status": "False", "lastTransitionTime": _now()} for kind in kinds]
        await self._status(self.pods[uid], {"conditions": conditions})
        await self._live(uid)

    def _process(self, pod: Pod) -> Engine | RealRouter | FakeRouter:
        # Started once more on its node a pod keeps its address: an API server takes no second one.
        address = pod.get("status", {}).get("podIP") or self._address()
        if pod["metadata"]["labels"].get("cascadia/workload") != "router":
            return Engine(address, pod["metadata"]["name"])
        folder = self.folder / pod["metadata"]["name"]
        return RealRouter(address, folder, self.services) if self.real_routers else FakeRouter(address)

    def _address(self) -> str:
        """Other clusters on this machine have other addresses: theirs begin elsewhere."""
        block = os.getpid() + self._addresses // 250
        self._addresses += 1
        return f"127.{64 + block % 128}.{block // 128 % 256}.{self._addresses % 250 + 1}"

    async def _start(self, uid: str, process: Engine | RealRouter | FakeRouter) -> bool:
        """False where the pod is deleted before it runs."""
        pod = self.pods[uid]
        if not isinstance(process, Engine):
            while (text := await self._config(pod)) is None:
                if self._deleted(uid):
                    return False
                await asyncio.sleep(LOOK_S)
            process.write(text)
        if isinstance(process, RealRouter):
            while (environment := await self._environment(pod)) is None:
                if self._deleted(uid):
                    return False
                await asyncio.sleep(LOOK_S)
            process.environment = environment
        if isinstance(process, Engine):
            await asyncio.sleep(self.startup_s)
            while self.folder.with_name("loading").exists():
                if self._deleted(uid):
                    return False
                await asyncio.sleep(LOOK_S)
        await process.start()
        return True

    async def _tend(self, uid: str, process: Engine | RealRouter | FakeRouter) -> None:
        """Until it is deleted: readiness is told when it changes, and a router's file is brought up to date."""
        now = asyncio.get_running_loop().time
        told: bool | None = None
        refreshed_s, annotations = now(), self.pods[uid]["metadata"].get("annotations")
        while not self._deleted(uid):
            pod = self.pods[uid]
            ready = await process.ready()
            if ready != told:
                await self._status(pod, _running(pod, process.address, ready))
                told = ready
            changed = pod["metadata"].get("annotations") != annotations
            if not isinstance(process, Engine) and (changed or now() - refreshed_s > CONFIG_S):
                refreshed_s, annotations = now(), pod["metadata"].get("annotations")
                text = await self._config(pod)
                if text is not None:
                    process.write(text)
            await asyncio.sleep(LOOK_S)

    async def _config(self, pod: Pod) -> str | None:
        for volume in pod["spec"].get("volumes", ()):
            if "configMap" in volume and volume["name"] == "config":
                space = pod["metadata"]["namespace"]
                path = f"/api/v1/namespaces/{space}/configmaps/{volume['configMap']['name']}"
                answer = await self.client.get(path)
                if answer.status_code == 200:
                    return str(answer.json()["data"]["router.yaml"])
                return None
        return ""

    async def _environment(self, pod: Pod) -> dict[str, str] | None:
        """Of its first container; None while a secret is missing."""
        found = {}
        for variable in pod["spec"]["containers"][0].get("env", ()):
            if "value" in variable:
                found[variable["name"]] = variable["value"]
                continue
            named = variable["valueFrom"]["secretKeyRef"]
            space = pod["metadata"]["namespace"]
            answer = await self.client.get(f"/api/v1/namespaces/{space}/secrets/{named['name']}")
            if answer.status_code != 200:
                return None
            packed = answer.json()["data"][named["key"]]
            found[variable["name"]] = base64.b64decode(packed).decode()
        return found

    async def _until_deleted(self, uid: str) -> None:
        while not self._deleted(uid):
            await asyncio.sleep(LOOK_S)

    def _deleted(self, uid: str) -> bool:
        pod = self.pods.get(uid)
        return pod is None or "deletionTimestamp" in pod["metadata"] or self._lost(uid)

    def _lost(self, uid: str) -> bool:
        return uid in self.pods and self.pods[uid]["spec"]["nodeName"] in self.dead

    async def _status(self, pod: Pod, status: dict[str, Any]) -> None:
        path = f"{_path(pod['metadata'])}/status"
        await self.client.patch(path, headers=PATCH, json={"status": status})


def _path(about: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"


def _is_broken(pod: Pod) -> bool:
    """A variable that stands for an image that is nowhere."""
    variables = (one for container in pod["spec"]["containers"] for one in container.get("env", ()))
    return any(variable["name"] == "IMAGE_IS_MISSING" for variable in variables)


def _pre_stop_s(pod: Pod) -> float:
    hook = pod["spec"]["containers"][0].get("lifecycle", {}).get("preStop")
    return float(hook["exec"]["command"][1]) if hook else 0.0


def _cannot_pull(pod: Pod) -> dict[str, Any]:
    waiting = {"reason": "ImagePullBackOff", "message": "manifest unknown"}
    container = pod["spec"]["containers"][0]
    told = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
    return {"containerStatuses": [{**told, "restartCount": 0, "state": {"waiting": waiting}}]}


def _running(pod: Pod, address: str, ready: bool) -> dict[str, Any]:
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _now()}},
        }
        for container in pod["spec"]["containers"]
    ]
    said = {"Initialized": True, "PodScheduled": True, "ContainersReady": ready, "Ready": ready}
    conditions = [
        {"type": kind, "status": str(value), "lastTransitionTime": _now()} for kind, value in said.items()
    ]
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": conditions,
        "containerStatuses": containers,
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def main(folder: str, url: str, token: str, startup_s: str, routers: str, *nodes: str) -> None:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, verify=False, timeout=20) as client:
        await Kubelets(client, Path(folder), float(startup_s), routers == "real").run(list(nodes))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
