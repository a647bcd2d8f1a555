"""The controller: an account that may change this namespace's workloads of engines, and nothing else."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.own_service import own_deployment
from cascadia.render.kubernetes.release import Release

NAME = "controller"
_GRACE_S = 60


def controller(release: Release) -> Iterator[dict[str, Any]]:
    values = release.values[NAME]
    if not values["enabled"]:
        return
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": release.metadata(NAME, NAME),
        "automountServiceAccountToken": False,
    }
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": release.metadata(NAME, NAME),
        "rules": _rules(release),
    }
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": release.metadata(NAME, NAME),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": release.named(NAME),
        },
        "subjects": [{"kind": "ServiceAccount", "name": release.named(NAME), "namespace": release.namespace}],
    }
    yield own_deployment(release, NAME, values, release.named(NAME), [], _GRACE_S)


def _rules(release: Release) -> list[dict[str, Any]]:
    """Names cannot be said of what it makes or lists; of what it rewrites they can."""
    read, write = ["get", "list", "watch"], ["create", "update", "patch", "delete"]
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": read},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": [*read, *write]},
        {
            "apiGroups": ["leaderworkerset.x-k8s.io"],
            "resources": ["leaderworkersets"],
            "verbs": [*read, *write],
        },
        {"apiGroups": [""], "resources": ["services"], "verbs": [*read, *write]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [release.named("router")],
            "verbs": ["get", "update", "patch"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [release.named(NAME)],
            "verbs": ["get", "update", "patch"],
        },
    ]
