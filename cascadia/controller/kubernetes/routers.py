"""Routers of a release: what they are told, and whether they all have taken it up.

router.yaml is a ConfigMap. Each text has a revision of its own, which a router says in `/ready` when it serves by it:
a text counts as told when no router that answers says another.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import yaml

from cascadia.clients.cluster.kubernetes_api import KubernetesApi
from cascadia.clients.cluster.router_samples import Source
from cascadia.clients.processes.health import get
from cascadia.controller.kubernetes.pods import leaves, ready
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Routing
from cascadia.files.addresses import http_url
from cascadia.render.kubernetes.containers import HTTP_PORT
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router import NAME

IN_FORCE, TOLD = "cascadia/in-force", "cascadia/told"
"""On the ConfigMap: the routing that all routers serve; on a router's pod: the revision it was told of last."""

LOOK_S = 0.5
CONFIRM_S = 180.0
"""Kubelets bring a new ConfigMap to a pod that changes at once, and to others within about a minute and a half."""


class Routers:
    def __init__(self, api: KubernetesApi, release: Release) -> None:
        self._api = api
        self._release = release

    async def routing(self) -> Routing | None:
        """Routing in force on all routers; None where none was ever told anything."""
        found = await self._config()
        said = found["metadata"].get("annotations", {}).get(IN_FORCE) if found is not None else None
        if said is None:
            return None
        return Routing.read(json.loads(said))

    async def prepare(self, text: str, owner: Mapping[str, Any]) -> None:
        """Writes settings for routers to start with, where nothing has been told yet: their pods wait for the
        file.
        """
        if await self._config() is None:
            await self._write(text, owner)

    async def tell(self, text: str, owner: Mapping[str, Any], routing: Routing) -> None:
        """Returns when each router serves by `text`. Raises `StepFailed`."""
        await self._write(text, owner)
        await self._confirmed(yaml.safe_load(text)["revision"])
        said = json.dumps(asdict(routing), sort_keys=True)
        await self._api.merge("ConfigMap", self._name, {"metadata": {"annotations": {IN_FORCE: said}}})

    async def sources(self) -> list[Source]:
        """Routers' workload logs; those that are leaving have some of it too."""
        return [
            Source(pod["metadata"]["name"], http_url(pod["status"]["podIP"], HTTP_PORT), ready(pod))
            for pod in await self._pods()
        ]

    @property
    def _name(self) -> str:
        return self._release.named(NAME)

    async def _config(self) -> dict[str, Any] | None:
        return await self._api.get("ConfigMap", self._name)

    async def _write(self, text: str, owner: Mapping[str, Any]) -> None:
        about = self._release.metadata(NAME, NAME, ownerReferences=[dict(owner)])
        await self._api.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"router.yaml": text}}
        )

    async def _confirmed(self, revision: str) -> None:
        until_s = time.monotonic() + CONFIRM_S
        while left := await self._behind(revision):
            if time.monotonic() > until_s:
                raise StepFailed(
                    f"{', '.join(sorted(left))} did not take up the new router.yaml within {CONFIRM_S:.0f} s; "
                    "their logs (event: reload) say why"
                )
            await asyncio.sleep(LOOK_S)

    async def _behind(self, revision: str) -> list[str]:
        """Routers that serve by another text. Who neither answers nor is ready serves nobody."""
        running = [pod for pod in await self._pods() if not leaves(pod)]
        said = await asyncio.gather(*(self._revision(pod) for pod in running))
        behind = []
        for pod, found in zip(running, said, strict=True):
            name = pod["metadata"]["name"]
            if found == revision or (found is None and not ready(pod)):
                continue
            behind.append(name)
            if pod["metadata"].get("annotations", {}).get(TOLD) != revision:
                await self._api.merge("Pod", name, {"metadata": {"annotations": {TOLD: revision}}})
        return behind

    async def _pods(self) -> list[dict[str, Any]]:
        """Pods of routers that have an address."""
        pods = await self._api.all("Pod", self._release.selector(cascadia__workload=NAME))
        return [pod for pod in pods if pod.get("status", {}).get("podIP")]

    async def _revision(self, pod: Mapping[str, Any]) -> str | None:
        """Revision that a router serves by; None where it does not answer."""
        status, body = await get(pod["status"]["podIP"], HTTP_PORT, "/ready")
        try:
            return str(json.loads(body)["revision"]) if status else None
        except (ValueError, KeyError, TypeError):
            # It answers, but not by a revision: that is behind, where None would be a router that serves nobody.
            return ""
