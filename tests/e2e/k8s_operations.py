"""What operators do to a release that serves, and clients that notice if anything is lost by it."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from cascadia.controller.kubernetes.pods import ready
from cascadia.domain.cluster import Cluster as Gpus
from cascadia.domain.cluster import Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.testing.plans import plan, stage
from tests.e2e.k8s_cluster import PATIENCE_S, Cluster
from tests.e2e.k8s_release import CERTAINTY, SPACE, ready_routers

API = f"/api/v1/namespaces/{SPACE}"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
SETTINGS: dict[str, Any] = {
    "controller": {"enabled": False},
    "router": {
        "autoscaling": {"enabled": False},
        "replicas": 2,
        "noticeSeconds": 5,
        "config": {"samples": {"folder": "samples", "seconds": 30}, "page": False},
    },
    # Longer than the simulated DNS tells of a pod that has left.
    "engines": {"preStopSeconds": 4, "marginSeconds": 0},
}
PAUSE_S = 0.05
LOOK_S = 0.3

Shape = tuple[int, int]
"""GPUs of a replica, and how many replicas."""


def shaped(nodes: int, small: Shape | list[Shape], large: Shape | list[Shape]) -> Plan:
    pools = Gpus((Pool("h100", "h100-sxm", nodes, 8, 2.5),))
    stages = []
    for name, shapes in (("small", small), ("large", large)):
        listed = shapes if isinstance(shapes, list) else [shapes]
        groups = [ReplicaGroup("h100", tp, 1, count, 1 / len(listed)) for tp, count in listed]
        stages.append(stage(name, *groups))
    return plan(stages, pools, CERTAINTY)


class Clients:
    """They ask each stage of each ready router in turn; who is ready is looked up as often as a load balancer does."""

    def __init__(self, on: Cluster, clients: int = 3) -> None:
        self._on = on
        self._clients = clients
        self._routers: list[str] = []
        self._turn = itertools.count()
        self.answered: Counter[str] = Counter()
        self.failed: list[str] = []
        self.ended = asyncio.Event()

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            await self._look()
            asking = [self._ask(client) for _ in range(self._clients)]
            await asyncio.gather(self._follow(), *asking)

    async def _follow(self) -> None:
        while not self.ended.is_set():
            await self._look()
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        self._routers = await asyncio.to_thread(ready_routers, self._on)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        while not self.ended.is_set():
            await asyncio.sleep(PAUSE_S)
            turn = next(self._turn)
            if not self._routers:
                self.failed.append("no router is ready")
                continue
            address = self._routers[turn // 2 % len(self._routers)]
            body: dict[str, Any] = {
                "model": ("small", "large")[turn % 2],
                "messages": [{"role": "user", "content": "hello"}],
            }
            try:
                answer = await client.post(f"http://{address}:8000/v1/chat/completions", json=body)
            except httpx.HTTPError as error:
                self.failed.append(f"{address}: {error!r}")
                continue
            if answer.status_code == 200:
                self.answered[answer.json()["choices"][0]["message"]["content"]] += 1
            else:
                self.failed.append(f"{body['model']} at {address}: {answer.status_code} {answer.text[:200]}")


async def until(holds: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> float:
    """How long it took, in seconds; beside the event loop."""
    began_s = time.monotonic()
    while not await asyncio.to_thread(holds):
        assert time.monotonic() - began_s < within_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(LOOK_S)
    return time.monotonic() - began_s


def settled(on: Cluster) -> bool:
    """Every Deployment has all its pods, all of the newest template, all ready, and none besides."""
    for found in on.get(DEPLOYMENTS)["items"]:
        status, wanted = found["status"], found["spec"]["replicas"]
        if status.get("observedGeneration", 0) < found["metadata"]["generation"]:
            return False
        counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
        if counts != [wanted] * 3:
            return False
    return not any("deletionTimestamp" in pod["metadata"] for pod in on.get(f"{API}/pods")["items"])


def engine_pods(on: Cluster) -> Iterator[dict[str, Any]]:
    for pod in on.get(f"{API}/pods")["items"]:
        if "cascadia/service" in pod["metadata"]["labels"]:
            yield pod


def ready_of(on: Cluster, unit: str) -> int:
    return sum(ready(p) for p in engine_pods(on) if p["metadata"]["labels"]["cascadia/service"] == unit)


def cordon(on: Cluster, node: str, cordoned: bool = True) -> None:
    merge = {"content-type": "application/merge-patch+json"}
    on.ask(
        "PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}}, **merge
    ).raise_for_status()


def scale(on: Cluster, deployment: str, replicas: int) -> None:
    """As `kubectl scale` does."""
    merge = {"content-type": "application/merge-patch+json"}
    wanted = {"spec": {"replicas": replicas}}
    on.ask("PATCH", f"{DEPLOYMENTS}/{deployment}/scale", wanted, **merge).raise_for_status()


def evict(on: Cluster, node: str) -> list[str]:
    """As `kubectl drain` does, once for each pod that is there; a refusal is no error. Names of those left."""
    left = []
    for pod in on.get(f"{API}/pods")["items"]:
        if pod["spec"].get("nodeName") != node:
            continue
        name = pod["metadata"]["name"]
        left.append(name)
        if "deletionTimestamp" not in pod["metadata"]:
            eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}}
            answer = on.ask("POST", f"{API}/pods/{name}/eviction", eviction)
            assert answer.status_code in (201, 404, 429), answer.text
    return left
