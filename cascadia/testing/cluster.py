"""A namespace in memory, in virtual time: objects are kept, and pods of engines are ready so long after they were made.

It is for speed: tests/e2e/test_kubernetes_moves.py does the same on a real API server.
"""

import copy
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cascadia.clients.cluster.kubernetes_api import ApiFailed
from cascadia.controller.kubernetes.desired import REPLICA

Document = dict[str, Any]
PRODUCT = "NVIDIA-H100-80GB-HBM3"


class FakeCluster:
    """Stands in for `KubernetesApi`. `fails`: what every write raises."""

    def __init__(self, gpus: int, startup_s: float, namespace: str = "llm") -> None:
        self.namespace = namespace
        self.now_s = 1_000_000.0
        self.startup_s = startup_s
        self.objects: dict[tuple[str, str], Document] = {}
        self.fails: ApiFailed | None = None
        self.writes = 0
        self._uids = itertools.count(1)
        labels = {"nvidia.com/gpu.product": PRODUCT}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": ready}
        self._nodes = [{"metadata": {"name": "h100-0", "labels": labels}, "spec": {}, "status": status}]
        self.put({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cascadia-router"}})

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def put(self, document: Document) -> Document:
        about = {"labels": {}, "annotations": {}, "uid": f"u{next(self._uids)}", **document["metadata"]}
        found = copy.deepcopy({**document, "metadata": about})
        self.objects[document["kind"], about["name"]] = found
        return found

    async def get(self, kind: str, name: str) -> Document | None:
        return copy.deepcopy(self.objects.get((kind, name)))

    async def all(self, kind: str, labels: Mapping[str, str | None]) -> list[Document]:
        def fits(found: Document) -> bool:
            own = found["metadata"]["labels"]
            return all(key in own and value in (None, own[key]) for key, value in labels.items())

        found = [document for (one, _), document in self.objects.items() if one == kind and fits(document)]
        return [copy.deepcopy(self._seen(document)) for document in found]

    async def owner(self, kind: str, name: str) -> Document:
        return {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u0"}

    async def nodes(self) -> list[Document]:
        return self._nodes

    async def create(self, document: Document) -> Document:
        return await self.apply(document)

    async def apply(self, document: Document) -> Document:
        self._write()
        made = self.put(document)
        if document["kind"] == "Deployment" and REPLICA in made["metadata"]["annotations"]:
            self._make_pod(made)
        return made

    async def merge(self, kind: str, name: str, part: Document) -> None:
        self._write()
        _merge(self.objects[kind, name], part)

    async def delete(self, kind: str, name: str, *, at_once: bool = False, keeps: bool = False) -> None:
        self._write()
        self.objects.pop((kind, name), None)
        self.objects.pop(("Pod", name), None)

    def _write(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.writes += 1

    def _make_pod(self, workload: Document) -> None:
        template = workload["spec"]["template"]
        about = {**template["metadata"], "name": workload["metadata"]["name"]}
        pod = {"kind": "Pod", "metadata": about, "spec": {**template["spec"], "nodeName": "h100-0"}}
        self.put({**pod, "status": {"podIP": "127.0.0.1", "ready_at_s": self.now_s + self.startup_s}})

    def _seen(self, document: Document) -> Document:
        """A pod as its kubelet tells of it now."""
        status = document.get("status", {})
        if "ready_at_s" not in status or self.now_s < status["ready_at_s"]:
            return document
        since = datetime.fromtimestamp(status["ready_at_s"], UTC).isoformat()
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        return {**document, "status": {**status, "conditions": [condition]}}


def _merge(found: Document, part: Document) -> None:
    for key, value in part.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            _merge(found.setdefault(key, {}), value)
        else:
            found[key] = value
