"""The router: its settings, pods, Service, budget of disruptions, and what scales it."""

import hashlib
from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import (
    HTTP,
    container_security,
    from_secret,
    given,
    image,
    pod_security,
    pull_secrets,
    scheduling,
    spread,
    variables,
)
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router_config import (
    JUDGE_KEY,
    SAMPLES_TOKEN,
    hands_out_samples,
    router_config,
)
from cascadia.render.kubernetes.scaling import scaling
from cascadia.render.yaml_text import yaml_text

NAME = "router"
MARGIN_S = 15
"""For a router to end after its drain."""


def router(release: Release) -> Iterator[dict[str, Any]]:
    values = release.values["router"]
    text = yaml_text([router_config(release)])
    if release.values["controller"]["enabled"]:
        # The controller writes it, and pods take it up as they run; but not what a router reads at its start alone.
        text = yaml_text([values["config"]])
    else:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": release.metadata(NAME, NAME),
            "data": {"router.yaml": text},
        }
    matching = release.selector(cascadia__workload=NAME)
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": release.metadata(NAME, NAME, **given(annotations=values["service"]["annotations"])),
        "spec": {
            "type": values["service"]["type"],
            "selector": matching,
            "ports": [
                {
                    "name": "http",
                    "port": values["service"]["port"],
                    "targetPort": "http",
                    "protocol": "TCP",
                }
            ],
        },
    }
    yield {
        "apiVersion": release.first("policy/v1", "policy/v1beta1"),
        "kind": "PodDisruptionBudget",
        "metadata": release.metadata(NAME, NAME),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": matching}},
    }
    yield _deployment(release, matching, hashlib.sha256(text.encode()).hexdigest())
    yield from scaling(release)


def _deployment(release: Release, matching: dict[str, str], digest: str) -> dict[str, Any]:
    """A replica is never taken before its successor is ready. Other settings are other pods."""
    values = release.values["router"]
    scaled = values["autoscaling"]["enabled"] or release.values["keda"]["enabled"]
    annotations = {"cascadia/config": digest} | values["podAnnotations"]
    labels = {
        **release.labels(NAME),
        "app.kubernetes.io/name": "cascadia-router",
        "cascadia/workload": NAME,
        **values["podLabels"],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": release.metadata(
            NAME, NAME, annotations={"cascadia/plan": release.values["plan"]["digest"]}
        ),
        "spec": {
            # A number here would undo the autoscaler's at each upgrade.
            **({} if scaled else {"replicas": values["replicas"]}),
            "selector": {"matchLabels": matching},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "progressDeadlineSeconds": release.values["engines"]["startupSeconds"] + 300,
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": _pod(release, matching),
            },
        },
    }


def _pod(release: Release, matching: dict[str, str]) -> dict[str, Any]:
    values = release.values["router"]
    return {
        "serviceAccountName": release.full_name,
        # It asks the API server nothing, and clients' bytes come in here.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **given(imagePullSecrets=pull_secrets(release)),
        **scheduling(values),
        "securityContext": pod_security(values["podSecurityContext"]),
        "topologySpreadConstraints": spread(matching),
        "terminationGracePeriodSeconds": values["noticeSeconds"] + values["drainSeconds"] + MARGIN_S,
        "containers": [_container(release)],
        "volumes": [
            {"name": "config", "configMap": {"name": release.named(NAME)}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "data", **_data(release)},
            *(
                {"name": f"secret-{i}", "secret": {"secretName": secret["secretName"]}}
                for i, secret in enumerate(values["secrets"])
            ),
        ],
    }


def _data(release: Release) -> dict[str, Any]:
    """Volume that the workload log goes to: a volume that the controller reads too, where there is one."""
    controller = release.values["controller"]
    if controller["enabled"] and controller["samples"]["claimName"]:
        return {"persistentVolumeClaim": {"claimName": controller["samples"]["claimName"]}}
    return {"emptyDir": {}}


def _container(release: Release) -> dict[str, Any]:
    """No preStop hook: at SIGTERM the router says no to `/ready` and goes on serving for `noticeSeconds`."""
    values = release.values["router"]
    every = {"timeoutSeconds": 5}
    health = {"httpGet": {"path": "/health", "port": "http"}, **every}
    ready = {"httpGet": {"path": "/ready", "port": "http"}, **every}
    return {
        "name": NAME,
        "image": image(release, values["image"]),
        "imagePullPolicy": values["image"]["pullPolicy"],
        "command": ["cascadia"],
        "args": [
            "serve",
            "/etc/cascadia/router.yaml",
            *([] if values["logRequests"] else ["--no-log"]),
        ],
        **given(env=variables(_environment(release))),
        "ports": [HTTP],
        "resources": values["resources"],
        "securityContext": container_security(values["securityContext"]),
        "startupProbe": {**health, "periodSeconds": 1, "failureThreshold": 120},
        # Once is enough: a router that drains says no on purpose.
        "readinessProbe": {**ready, "periodSeconds": 5, "failureThreshold": 1},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 3},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/cascadia", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "data", "mountPath": "/data"},
            *(
                {"name": f"secret-{i}", "mountPath": f"/secrets/{secret['name']}", "readOnly": True}
                for i, secret in enumerate(values["secrets"])
            ),
        ],
    }


def _environment(release: Release) -> list[dict[str, Any]]:
    key = release.values["judge"]["apiKey"]
    judge = [from_secret(JUDGE_KEY, key)] if key["secretName"] else []
    secret = release.values["externalKeys"]["secretName"]
    names = dict.fromkeys(
        stage["apiKeyEnv"] for stage in release.values["externalStages"] if stage["apiKeyEnv"]
    )
    stages = [from_secret(name, {"secretName": secret, "secretKey": name}) for name in names]
    return [*judge, *stages, *samples_token(release), *release.values["router"]["env"]]


def samples_token(release: Release) -> list[dict[str, Any]]:
    """Token that routers and controllers know each other by."""
    controller = release.values["controller"]
    return [from_secret(SAMPLES_TOKEN, controller["samples"])] if hands_out_samples(controller) else []
