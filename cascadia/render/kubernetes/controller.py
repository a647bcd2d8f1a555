"""The controller: it makes the workloads of engines and what routers are told, with rights over just these."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.chart_values import whole_numbers
from cascadia.render.kubernetes.containers import service_ports
from cascadia.render.kubernetes.own_service import Mounted, own_deployment
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router import NAME as ROUTER
from cascadia.render.kubernetes.router import samples_token
from cascadia.render.yaml_text import yaml_text

NAME = "controller"
_GRACE_S = 60
SETTINGS_DIGEST = "cascadia/settings"
"""Annotation of the pods, which are replaced when it changes: a controller reads its settings at its start."""
VALUES, SPEC, SAMPLES = "/etc/cascadia", "/spec", "/samples"


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
    # A cluster has one of a name: two namespaces may have a release each.
    wide = release.metadata(NAME, NAME) | {"name": f"{release.namespace}-{release.named(NAME)}"}
    del wide["namespace"]
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    for kind, metadata, rules in (
        ("Role", release.metadata(NAME, NAME), _rules(release)),
        ("ClusterRole", wide, [nodes]),
    ):
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        }
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
            "subjects": [
                {"kind": "ServiceAccount", "name": release.named(NAME), "namespace": release.namespace}
            ],
        }
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": release.metadata(NAME, NAME),
        "data": {
            "values.yaml": yaml_text([release.values]),
            "controller.yaml": yaml_text([values["settings"]]),
        },
    }
    yield own_deployment(
        release,
        NAME,
        {
            **values,
            "args": [*_arguments(release), *values["args"]],
            "env": [*samples_token(release), *values["env"]],
            "podAnnotations": {SETTINGS_DIGEST: _digest(values["settings"]), **values["podAnnotations"]},
        },
        account=release.named(NAME),
        mounted=_mounted(release),
        grace_s=_GRACE_S,
        ready_path="/ready",
    )
    # For Prometheus alone, which is to hear also of one that is not ready.
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": release.metadata(NAME, NAME),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": release.selector(cascadia__workload=NAME),
            "ports": service_ports(),
        },
    }


def _digest(settings: dict[str, Any]) -> str:
    """SHA-256 of the settings as Helm's `toJson` writes them: keys in order, no spaces, 2.0 as 2."""
    text = json.dumps(whole_numbers(settings), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _arguments(release: Release) -> list[str]:
    return [
        "controller",
        f"{SPEC}/cascade.yaml",
        f"{SPEC}/plan.json",
        "--backend=kubernetes",
        f"--namespace={release.namespace}",
        f"--release={release.name}",
        f"--values={VALUES}/values.yaml",
        f"--settings={VALUES}/controller.yaml",
        *([f"--samples={SAMPLES}"] if release.values[NAME]["samples"]["claimName"] else []),
        "--run-dir=/tmp/run",
        "--host=0.0.0.0",
        "--port=8000",
    ]


def _mounted(release: Release) -> list[Mounted]:
    values = release.values[NAME]
    spec: dict[str, Any] = {"configMap": {"name": values["spec"]["configMapName"]}}
    if values["spec"]["claimName"]:
        spec = {"persistentVolumeClaim": {"claimName": values["spec"]["claimName"]}}
    mounted: list[Mounted] = [
        ({"name": "values", "configMap": {"name": release.named(NAME)}}, VALUES),
        ({"name": "spec", **spec}, SPEC),
    ]
    if values["samples"]["claimName"]:
        samples = {"persistentVolumeClaim": {"claimName": values["samples"]["claimName"]}}
        mounted.append(({"name": "samples", **samples}, SAMPLES))
    return mounted


def _rules(release: Release) -> list[dict[str, Any]]:
    """Names cannot be said of what it makes or lists; of what it rewrites they can."""
    read, write = ["get", "list", "watch"], ["create", "update", "patch", "delete"]
    made = [release.named(ROUTER), release.named(f"{NAME}-state")]
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*read, "patch", "delete"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": [*read, *write]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "delete"]},
        {
            "apiGroups": ["leaderworkerset.x-k8s.io"],
            "resources": ["leaderworkersets"],
            "verbs": [*read, *write],
        },
        {"apiGroups": [""], "resources": ["services"], "verbs": [*read, *write]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": [*read, *write]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": made,
            "verbs": ["get", "update", "patch", "delete"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [release.named(NAME)],
            "verbs": ["get", "update", "patch"],
        },
    ]
