"""The objects of one namespace that the controller reads and writes, as plain documents; and the cluster's nodes.

Each change is asked of `fence` first: who may no longer act, acts no more.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, Self

import httpx2
import msgspec
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

OPTIONAL: tuple[Name, ...] = ("LeaderWorkerSet",)
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
    """The API server refused, or did not answer; `status` is 0 then. `absent`: what was asked for is not there. A
    status of 404 alone says less: an API server that begins has not all kinds yet, a balancer before it has none."""

    def __init__(self, message: str, status: int = 0, *, absent: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.absent = absent

    @property
    def passes(self) -> bool:
        """Tells whether it may go well in a while. 0: no answer at all; 409: somebody wrote meanwhile; 410: what was
        read is too old; 429: the API server sheds load."""
        return not self.absent and (self.status in (0, 404, 409, 410, 429) or self.status >= 500)


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
        except (ImportError, ValueError):
            what = "names a proxy of a kind that is not asked here"
            raise BadInput("ALL_PROXY", what, "unset it, or name an http:// proxy in HTTPS_PROXY") from None
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
                with _answering():
                    async for _ in self._client.list(kind, chunk_size=1):
                        break
            except ApiFailed as error:
                if error.status != 404:
                    raise
            else:
                return frozenset({f"policy/{version}"})
        raise ApiFailed("the cluster has no budgets of disruptions (policy/v1)")

    async def get(self, kind: Name, name: str) -> Document | None:
        """Object of that name; None where there is none."""
        try:
            with _answering():
                return dict(await self._client.get(self._types[kind], name))
        except ApiFailed as error:
            if error.absent:
                return None
            raise

    async def all(self, kind: Name, labels: Mapping[str, str | None]) -> list[Document]:
        """A label of None has to be there, with any value. Empty where the cluster does not know a kind that is not
        Kubernetes' own."""
        try:
            with _answering():
                listed = self._client.list(self._types[kind], labels=dict(labels))
                return [dict(found) async for found in listed]
        except ApiFailed as error:
            if error.status == 404 and kind in OPTIONAL:
                return []
            raise

    async def owner(self, kind: Name, name: str) -> Document:
        """A reference by which other objects are deleted together with this one."""
        found = await self.get(kind, name)
        if found is None:
            raise ApiFailed(
                f"there is no {kind} {name} in {self.namespace}: is the release installed there?",
                404,
                absent=True,
            )
        return {
            "apiVersion": found["apiVersion"],
            "kind": kind,
            "name": name,
            "uid": found["metadata"]["uid"],
        }

    async def nodes(self) -> list[Document]:
        with _answering():
            return [dict(found) async for found in self._client.list(self._node)]

    async def apply(self, document: Document) -> Document:
        """Server-side: what others have set beside it stays."""
        await self.fence()
        kind = self._types[document["kind"]]
        with _answering():
            return dict(await self._client.apply(kind(document), force=True))

    async def merge(self, kind: Name, name: str, part: Document) -> None:
        """A JSON merge patch: null takes a member away."""
        await self.fence()
        with _answering():
            await self._client.patch(self._types[kind], name, part, patch_type=PatchType.MERGE)

    async def create(self, document: Document) -> Document:
        with _answering():
            return dict(await self._client.create(self._types[document["kind"]](document)))

    async def replace(self, document: Document) -> Document:
        """Replaces what has not changed since it was read: else `ApiFailed` with status 409."""
        with _answering():
            return dict(await self._client.replace(self._types[document["kind"]](document)))

    async def delete(self, kind: Name, name: str, *, at_once: bool = False, keeps: bool = False) -> None:
        """Deletes an object, which stays until what it owns has gone; `keeps`: what it owns stays, without an
        owner. `at_once`: without waiting for a kubelet that will not answer. What has gone already is no error.
        """
        await self.fence()
        grace_s = 0 if at_once else None
        try:
            with _answering():
                await self._client.delete(
                    self._types[kind],
                    name,
                    grace_period=grace_s,
                    cascade=CascadeType.ORPHAN if keeps else CascadeType.FOREGROUND,
                )
        except ApiFailed as error:
            if not error.absent:
                raise


@cache
def _type(group: str, version: str, kind: str, plural: str) -> Any:
    """The library takes a kind once."""
    return create_namespaced_resource(group, version, kind, plural)


@cache
def _nodes() -> type[GenericGlobalResource]:
    return create_global_resource("", "v1", "Node", "nodes")


@contextmanager
def _answering() -> Iterator[None]:
    """Raises `ApiFailed` for whatever goes wrong, of a balancer that answers in the API server's place too: the library
    takes each answer for an API server's own."""
    try:
        yield
    except ApiError as error:
        details = error.status.details
        absent = error.status.code == 404 and bool(details and details.name)
        raise ApiFailed(str(error), error.status.code or error.response.status_code, absent=absent) from None
    except httpx2.HTTPStatusError as error:
        raise ApiFailed(str(error), error.response.status_code) from None
    except httpx2.HTTPError as error:
        raise ApiFailed(f"the API server does not answer ({type(error).__name__})") from None
    except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise ApiFailed(f"what answers is no API server ({type(error).__name__})") from None
