"""A service of ours beside the router: what its pods have in common."""

from typing import Any

from cascadia.render.kubernetes.containers import (
    HTTP,
    container_security,
    given,
    image,
    pod_security,
    pull_secrets,
    scheduling,
    spread,
    variables,
)
from cascadia.render.kubernetes.release import Release

Mounted = tuple[dict[str, Any], str]
"""A volume (its name included), and where the container finds it."""


def own_deployment(
    release: Release,
    component: str,
    values: dict[str, Any],
    *,
    account: str,
    mounted: list[Mounted],
    grace_s: int,
    ready_path: str = "/health",
) -> dict[str, Any]:
    matching = release.selector(cascadia__workload=component)
    labels = {
        **release.labels(component),
        "app.kubernetes.io/name": f"cascadia-{component}",
        "cascadia/workload": component,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": release.metadata(component, component),
        "spec": {
            "replicas": values["replicas"],
            "selector": {"matchLabels": matching},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {
                    "labels": labels | values["podLabels"],
                    **given(annotations=values["podAnnotations"]),
                },
                "spec": {
                    "serviceAccountName": account,
                    "automountServiceAccountToken": account != release.full_name,
                    "enableServiceLinks": False,
                    **given(imagePullSecrets=pull_secrets(release)),
                    **scheduling(values),
                    "securityContext": pod_security(values["podSecurityContext"]),
                    "topologySpreadConstraints": spread(matching),
                    "terminationGracePeriodSeconds": grace_s,
                    "containers": [_container(release, component, values, mounted, ready_path)],
                    "volumes": [{"name": "tmp", "emptyDir": {}}, *(volume for volume, _ in mounted)],
                },
            },
        },
    }


def _container(
    release: Release, name: str, values: dict[str, Any], mounted: list[Mounted], ready_path: str
) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        "name": name,
        "image": image(release, values["image"]),
        "imagePullPolicy": values["image"]["pullPolicy"],
        "command": ["cascadia"],
        "args": values["args"],
        **given(env=variables(values["env"])),
        "ports": [HTTP],
        "resources": values["resources"],
        "securityContext": container_security(values["securityContext"]),
        "startupProbe": {**health, "periodSeconds": 2, "failureThreshold": 150},
        "readinessProbe": {
            **health,
            "httpGet": {"path": ready_path, "port": "http"},
            "periodSeconds": 5,
            "failureThreshold": 2,
        },
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
        # Routers forget the pod before it ends.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "15"]}}},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            *({"name": volume["name"], "mountPath": path, "readOnly": True} for volume, path in mounted),
        ],
    }
