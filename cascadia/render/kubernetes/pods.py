"""The pod of one rank: it passes the "restricted" Pod Security Standard."""

from dataclasses import replace
from typing import Any

from cascadia.render.engine_args import Launch, Ranks, arguments, command
from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import HTTP_PORT, IMAGE, RENDEZVOUS_PORT, STARTUP_S
from cascadia.render.kubernetes.metadata import SERVES, pod_labels
from cascadia.render.models import MODELS_DIR, is_path, mounted_weights

USER_ID = 1000

PRE_STOP_S = 15
"""Endpoints forget a stopping pod before its engine stops taking requests."""

MARGIN_S = 30
"""For an engine to free its GPUs after the last answer."""

_PROBE_PERIOD_S = 10


def single_pod(group: EngineGroup) -> dict[str, Any]:
    """The template of a replica that is one pod."""
    return _template(group, _launch(group), serves=True)


def leader_pod(group: EngineGroup) -> dict[str, Any]:
    return _template(group, _ranked(group, "0"), serves=True)


def worker_pod(group: EngineGroup) -> dict[str, Any]:
    return _template(group, _ranked(group, "$(LWS_WORKER_INDEX)"), serves=False)


def _launch(group: EngineGroup) -> Launch:
    launch = group.launch(weights=mounted_weights(group.model), host="0.0.0.0", port=HTTP_PORT)
    # Kubernetes expands $(NAME) in arguments, and $$ is its way to write a dollar sign.
    return replace(
        launch,
        weights=launch.weights.replace("$", "$$"),
        served_name=launch.served_name.replace("$", "$$"),
    )


def _ranked(group: EngineGroup, rank: str) -> Launch:
    """LeaderWorkerSet sets both variables in every container of a group."""
    ranks = Ranks(group.ranks, rank, "$(LWS_LEADER_ADDRESS)", RENDEZVOUS_PORT)
    return replace(_launch(group), ranks=ranks)


def _template(group: EngineGroup, launch: Launch, serves: bool) -> dict[str, Any]:
    labels = pod_labels(group) | ({SERVES: "true"} if serves else {})
    return {
        "metadata": {"labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            # Kubernetes' variables for other services can collide with an engine's own.
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "fsGroup": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "nodeSelector": {group.gpu.label: group.gpu.product},
            "tolerations": [{"key": group.gpu.resource, "operator": "Exists", "effect": "NoSchedule"}],
            "terminationGracePeriodSeconds": PRE_STOP_S + group.drain_s + MARGIN_S,
            "containers": [_container(group, launch, serves)],
            "volumes": _volumes(group),
        },
    }


def _container(group: EngineGroup, launch: Launch, serves: bool) -> dict[str, Any]:
    return {
        "name": "engine",
        "image": IMAGE[group.engine, group.gpu.vendor],
        "imagePullPolicy": "IfNotPresent",
        "command": list(command(launch)),
        "args": list(arguments(launch)),
        "env": _environment(),
        **({"ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}]} if serves else {}),
        "resources": _resources(group),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **(_probes() if serves else {}),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(PRE_STOP_S)]}}},
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *(
                [{"name": "models", "mountPath": MODELS_DIR, "readOnly": True}]
                if is_path(group.model)
                else []
            ),
        ],
    }


def _environment() -> list[dict[str, Any]]:
    """A user id without an entry in the image's passwd needs its home and name said."""
    plain = {
        "HOME": "/cache",
        "USER": "cascadia",
        "HF_HOME": "/cache/huggingface",
        "VLLM_NO_USAGE_STATS": "1",
    }
    token = {"secretKeyRef": {"name": "cascadia-hf-token", "key": "token", "optional": True}}
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        {"name": "HF_TOKEN", "valueFrom": token},
    ]


def _resources(group: EngineGroup) -> dict[str, Any]:
    """No CPU or memory limit: loading weights and compiling kernels peak far above serving."""
    gpus = group.gpus_per_rank
    return {
        "requests": {"cpu": str(2 * gpus), "memory": f"{16 * gpus}Gi", group.gpu.resource: str(gpus)},
        "limits": {group.gpu.resource: str(gpus)},
    }


def _probes() -> dict[str, Any]:
    """Patient ones: SGLang's `/health` generates a token, which takes over a second."""
    get = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 10}
    return {
        "startupProbe": {
            **get,
            "periodSeconds": _PROBE_PERIOD_S,
            "failureThreshold": STARTUP_S // _PROBE_PERIOD_S,
        },
        "readinessProbe": {**get, "periodSeconds": _PROBE_PERIOD_S, "failureThreshold": 2},
        "livenessProbe": {**get, "periodSeconds": _PROBE_PERIOD_S, "failureThreshold": 6},
    }


def _volumes(group: EngineGroup) -> list[dict[str, Any]]:
    """Tensor-parallel workers talk through /dev/shm; the default of 64 MiB is too small."""
    shm = {"medium": "Memory", "sizeLimit": f"{max(4, 2 * group.gpus_per_rank)}Gi"}
    models = {"name": "models", "persistentVolumeClaim": {"claimName": "cascadia-models", "readOnly": True}}
    return [
        {"name": "cache", "emptyDir": {}},
        {"name": "shm", "emptyDir": shm},
        *([models] if is_path(group.model) else []),
    ]
