"""Containers as all pods have them: they pass the "restricted" Pod Security Standard, with a read-only root."""

from typing import Any

from cascadia.render.kubernetes.chart_values import Values, merged
from cascadia.render.kubernetes.release import Release

USER_ID = 1000
HTTP_PORT = 8000

_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

HTTP = {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}

APP_VERSION = "0.1.0"
"""The chart's `appVersion`: the tag of our own images."""


def pod_security(over: Values) -> dict[str, Any]:
    """Security context of a pod; `over` is a user's, put over ours."""
    ours = {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # Else kubelets walk through all files of a volume of weights at each start of a pod.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return merged(ours, over)


def container_security(over: Values) -> dict[str, Any]:
    return merged(_CONTAINER_SECURITY, over)


def scheduling(values: Values) -> dict[str, Any]:
    """Scheduling: where the pods of a service of ours may run, and before whom."""
    return given(
        **{key: values[key] for key in ("priorityClassName", "nodeSelector", "affinity", "tolerations")}
    )


def variables(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Environment variables of a container: the last of a name is the one."""
    last = {one["name"]: i for i, one in enumerate(found)}
    return [one for i, one in enumerate(found) if last[one["name"]] == i]


def image(release: Release, found: Values) -> str:
    """Image of our own: a digest goes before a tag, and the chart's version before none."""
    registry = release.values["imageRegistry"]
    name = f"{registry}/{found['repository']}" if registry else found["repository"]
    return f"{name}@{found['digest']}" if found["digest"] else f"{name}:{found['tag'] or APP_VERSION}"


def given(**members: Any) -> dict[str, Any]:
    """Members that are not empty."""
    return {name: value for name, value in members.items() if value}


def from_secret(variable: str, named: Values) -> dict[str, Any]:
    """A container's variable; `named` says which `secretName` and `secretKey`."""
    secret = {"name": named["secretName"], "key": named["secretKey"]}
    return {"name": variable, "valueFrom": {"secretKeyRef": secret}}


def pull_secrets(release: Release) -> list[dict[str, str]]:
    return [{"name": name} for name in release.values["imagePullSecrets"]]


def service_ports() -> list[dict[str, Any]]:
    return [{"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP"}]


def spread(matching: dict[str, str]) -> list[dict[str, Any]]:
    """Pods of ours prefer to be apart: other zones, and other machines."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": matching},
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
