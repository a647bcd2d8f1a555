"""The pod of one rank of a replica."""

from typing import Any

from cascadia.render.kubernetes.containers import (
    HTTP,
    container_security,
    given,
    pod_security,
    pull_secrets,
    variables,
)
from cascadia.render.kubernetes.engines.affinity import engine_affinity
from cascadia.render.kubernetes.engines.labels import pod_labels
from cascadia.render.kubernetes.engines.units import Engines, Group, Unit, engines_of
from cascadia.render.kubernetes.engines.volumes import mounts, volumes
from cascadia.render.kubernetes.release import SERVES, Release

_PROBE_PERIOD_S = 10


def engine_pod(release: Release, unit: Unit, group: Group, serves: bool) -> dict[str, Any]:
    """The template of a replica that is one pod, of a leader, or (where it does not serve) of a worker."""
    engines = engines_of(release.values, unit)
    labels = pod_labels(release, unit, group) | ({SERVES: "true"} if serves else {}) | engines["podLabels"]
    grace_s = engines["preStopSeconds"] + unit["drainSeconds"] + engines["marginSeconds"]
    return {
        "metadata": {"labels": labels, **given(annotations=engines["podAnnotations"])},
        "spec": {
            "serviceAccountName": release.full_name,
            "automountServiceAccountToken": False,
            # Kubernetes' variables for other services can collide with an engine's own.
            "enableServiceLinks": False,
            **given(
                imagePullSecrets=pull_secrets(release),
                priorityClassName=engines["priorityClassName"],
                runtimeClassName=engines["runtimeClassName"],
                nodeSelector=engines["nodeSelector"],
                initContainers=engines["initContainers"],
            ),
            "securityContext": pod_security(engines["podSecurityContext"]),
            "affinity": engine_affinity(release, group, engines),
            "tolerations": [
                # The taint by which clouds keep other pods off nodes with GPUs.
                {"key": group["gpuResource"], "operator": "Exists", "effect": "NoSchedule"},
                *engines["tolerations"],
            ],
            "terminationGracePeriodSeconds": grace_s,
            "containers": [_container(release, unit, group, engines, serves)],
            "volumes": volumes(release, unit, group, engines),
        },
    }


def _container(release: Release, unit: Unit, group: Group, engines: Engines, serves: bool) -> dict[str, Any]:
    return {
        "name": "engine",
        "image": group["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": group["command"],
        "args": group["args"] if serves else group["workerArgs"],
        "env": variables([*_environment(release), *engines["env"]]),
        **({"ports": [HTTP]} if serves else {}),
        "resources": _resources(engines, group),
        "securityContext": container_security(engines["securityContext"]),
        **(_probes(engines["startupSeconds"]) if serves else {}),
        # Out of the Service first, SIGTERM later: routers find an address for as long as DNS and their
        # connections last.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(engines["preStopSeconds"])]}}},
        "volumeMounts": mounts(unit, engines),
    }


def _environment(release: Release) -> list[dict[str, Any]]:
    """A user id without an entry in the image's passwd needs its home and name said."""
    plain = {
        "HOME": "/cache",
        "USER": "cascadia",
        "HF_HOME": "/cache/huggingface",
        # vLLM reports usage to its makers unless it is told not to.
        "VLLM_NO_USAGE_STATS": "1",
    }
    secret = release.values["huggingFaceToken"]
    token = {
        "secretKeyRef": {"name": secret["secretName"], "key": secret["secretKey"], "optional": True},
    }
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        {"name": "HF_TOKEN", "valueFrom": token},
    ]


def _resources(engines: Engines, group: Group) -> dict[str, Any]:
    """No CPU limit: loading weights and compiling kernels peak far above serving."""
    gpus = group["gpusPerPod"]
    extra = {name: str(int(count)) for name, count in engines["extraResources"].items()}
    counted = {group["gpuResource"]: str(gpus), **extra}
    asked = {"cpu": engines["cpuPerGpu"], "memory": engines["memoryGiPerGpu"]}
    return {
        "requests": {
            "cpu": str(asked["cpu"] * gpus),
            "memory": f"{asked['memory'] * gpus}Gi",
            **counted,
        },
        "limits": {"memory": f"{engines['memoryLimitGiPerGpu'] * gpus}Gi", **counted},
    }


def _probes(startup_s: int) -> dict[str, Any]:
    """Patient ones: SGLang's `/health` generates a token, which takes over a second."""
    get = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 10}
    every = {"periodSeconds": _PROBE_PERIOD_S}
    return {
        "startupProbe": {**get, **every, "failureThreshold": startup_s // _PROBE_PERIOD_S},
        "readinessProbe": {**get, **every, "failureThreshold": 2},
        "livenessProbe": {**get, **every, "failureThreshold": 6},
    }
