"""The objects of one namespace that the controller reads and writes, as plain documents; and the cluster's nodes.

Each change is asked of `fence` first: who may no longer act, acts no more.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Literal, Self

import httpx2
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.generic_resource import (
    GenericGlobalResource,
    create_global_resource,
    create_namespaced_resource,
)
from lightkube.types import CascadeType, PatchType

from cascadia.domain.errors import BadInput, CascadiaError

Document = dict[str, Any]
Name = Literal[
    "Pod",
    "Service",
    "ConfigMap",
    "Deployment",
    "ReplicaSet",
    "LeaderWorkerSet",
    "PodDisruptionBudget",
    "Lease",
    "Event",
]

FIELD_MANAGER = "cascadia-controller"
TIMEOUT_S = 5.0
"""Of one call: well within a lease."""

_GROUPS: Mapping[Name, tuple[str, str, str]] = {
    "Pod": ("", "v1", "pods"),
    "Service": ("", "v1", "services"),
    "ConfigMap": ("", "v1", "configmaps"),
    "Deployment": ("apps", "v1", "deployments"),
    "ReplicaSet": ("apps", "v1", "replicasets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "Lease": ("coordination.k8s.io", "v1", "leases"),
    "Event": ("", "v1", "events"),
}


class ApiFailed(CascadiaError):
    """The API server refused, or did not answer; `status` is 0 then."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


async def allowed() -> None:
    """A fence that lets everything through."""


class KubernetesApi:
    """`kubeconfig` None: KUBECONFIG, ~/.kube/config, or the account of the pod that this runs in. Raises `BadInput`."""

    def __init__(self, namespace: str | None = None, kubeconfig: str | None = None) -> None:
        try:
            config = KubeConfig.from_env() if kubeconfig is None else KubeConfig.from_file(kubeconfig)
            self._client = AsyncClient(
                config, namespace=namespace, timeout=httpx2.Timeout(TIMEOUT_S), field_manager=FIELD_MANAGER
            )
        except (ConfigError, KeyError, OSError) as error:
            raise BadInput(
                "kubernetes", f"no cluster is known ({error})", "set KUBECONFIG, or run inside the cluster"
            ) from None
        self.namespace = self._client.namespace
        self.fence: Callable[[], Awaitable[None]] = allowed
        # The library's own types say of a document's members less than we know.
        self._types: dict[str, Any] = {
            kind: _type(group, version, kind, plural) for kind, (group, version, plural) in _GROUPS.items()
        }
        self._node = _nodes()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def find_apis(self) -> frozenset[str]:
        """Names the APIs that the cluster has, of those that objects of a release choose from."""
        for version in ("v1", "v1beta1"):
            kind = create_namespaced_resource(
                "policy", version, "PodDisruptionBudget", "poddisruptionbudgets"
            )
            self._types["PodDisruptionBudget"] = kind
            try:
                async for _ in self._client.list(kind, chunk_size=1):
                    break
            except ApiError as error:
                if error.status.code != 404:
                    raise _failed(error) from None
            except httpx2.HTTPError as error:
                raise _failed(error) from None
            else:
                return frozenset({f"policy/{version}"})
        raise ApiFailed("the cluster has no budgets of disruptions (policy/v1)")

    async def get(self, kind: Name, name: str) -> Document | None:
        """Object of that name; None where there is none."""
        try:
            return dict(await self._client.get(self._types[kind], name))
        except (ApiError, httpx2.HTTPError) as error:
            failed = _failed(error)
            if failed.status == 404:
                return None
            raise failed from None

    async def all(self, kind: Name, labels: Mapping[str, str | None]) -> list[Document]:
        """A label of None has to be there, with any value. Empty where the cluster does not know the kind."""
        try:
            return [dict(found) async for found in self._client.list(self._types[kind], labels=dict(labels))]
        except (ApiError, httpx2.HTTPError) as error:
            failed = _failed(error)
            if failed.status == 404:
                return []
            raise failed from None

    async def owner(self, kind: Name, name: str) -> Document:
        """A reference by which other objects are deleted together with this one."""
        found = await self.get(kind, name)
        if found is None:
            raise ApiFailed(
                f"there is no {kind} {name} in {self.namespace}: is the release installed there?", 404
            )
        return {
            "apiVersion": found["apiVersion"],
            "kind": kind,
            "name": name,
            "uid": found["metadata"]["uid"],
        }

    async def nodes(self) -> list[Document]:
        try:
            return [dict(found) async for found in self._client.list(self._node)]
        except (ApiError, httpx2.HTTPError) as error:
            raise _failed(error) from None

    async def apply(self, document: Document) -> Document:
        """Server-side: what others have set beside it stays."""
        await self.fence()
        kind = self._types[document["kind"]]
        try:
            return dict(await self._client.apply(kind(document), force=True))
        except (ApiError, httpx2.HTTPError) as error:
            raise _failed(error) from None

    async def merge(self, kind: Name, name: str, part: Document) -> None:
        """A JSON merge patch: null takes a member away."""
        await self.fence()
        try:
            await self._client.patch(self._types[kind], name, part, patch_type=PatchType.MERGE)
        except (ApiError, httpx2.HTTPError) as error:
            raise _failed(error) from None

    async def create(self, document: Document) -> Document:
        try:
            return dict(await self._client.create(self._types[document["kind"]](document)))
        except (ApiError, httpx2.HTTPError) as error:
            raise _failed(error) from None

    async def replace(self, document: Document) -> Document:
        """Replaces what has not changed since it was read: else `ApiFailed` with status 409."""
        try:
            return dict(await self._client.replace(self._types[document["kind"]](document)))
        except (ApiError, httpx2.HTTPError) as error:
            raise _failed(error) from None

    async def delete(self, kind: Name, name: str, *, at_once: bool = False, keeps: bool = False) -> None:
        """Deletes an object, which stays until what it owns has gone; `keeps`: what it owns stays, without an
        owner. `at_once`: without waiting for a kubelet that will not answer. What has gone already is no error.
        """
        await self.fence()
        grace_s = 0 if at_once else None
        try:
            await self._client.delete(
                self._types[kind],
                name,
                grace_period=grace_s,
                cascade=CascadeType.ORPHAN if keeps else CascadeType.FOREGROUND,
            )
        except (ApiError, httpx2.HTTPError) as error:
            failed = _failed(error)
            if failed.status != 404:
                raise failed from None


@cache
def _type(group: str, version: str, kind: str, plural: str) -> Any:
    """The library takes a kind once."""
    return create_namespaced_resource(group, version, kind, plural)


@cache
def _nodes() -> type[GenericGlobalResource]:
    return create_global_resource("", "v1", "Node", "nodes")


def _failed(error: ApiError | httpx2.HTTPError) -> ApiFailed:
    if isinstance(error, ApiError):
        return ApiFailed(str(error), error.status.code or 0)
    if isinstance(error, httpx2.HTTPStatusError):
        return ApiFailed(str(error), error.response.status_code)
    return ApiFailed(f"the API server does not answer ({type(error).__name__})")
