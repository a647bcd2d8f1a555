"""Metrics of a release's engines: each replica's first rank answers for it."""

from collections.abc import Mapping

from cascadia.clients.cluster.kubernetes_api import ApiFailed
from cascadia.controller.kubernetes.backend import KubernetesBackend
from cascadia.controller.move.state import Kind
from cascadia.controller.speed.watch import metrics_of


class KubernetesEngines:
    def __init__(self, backend: KubernetesBackend) -> None:
        self._backend = backend

    async def metrics(self) -> Mapping[str, tuple[Kind, str]]:
        try:
            return await metrics_of(await self._backend.addresses())
        except ApiFailed:
            return {}
