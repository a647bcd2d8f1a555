"""Volumes of an engine: what it may write to, and where its weights come from."""

from typing import Any

from cascadia.render.kubernetes.containers import given
from cascadia.render.kubernetes.engines.units import Engines, Group, Unit
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.shared import claim
from cascadia.render.models import MODELS_DIR

Volume = dict[str, Any]


def volumes(release: Release, unit: Unit, group: Group, engines: Engines) -> list[Volume]:
    """Tensor-parallel workers talk through /dev/shm; the default of 64 MiB is too small."""
    shm = {"medium": "Memory", "sizeLimit": f"{max(4, 2 * group['gpusPerPod'])}Gi"}
    models = {"claimName": engines["modelsClaimName"], "readOnly": True}
    return [
        {"name": "cache", **_cache(release)},
        {"name": "shm", "emptyDir": shm},
        {"name": "tmp", "emptyDir": {}},
        *({"name": f"writable-{i}", "emptyDir": {}} for i, _ in enumerate(engines["writablePaths"])),
        *([{"name": "models", "persistentVolumeClaim": models}] if unit["modelsVolume"] else []),
        *engines["volumes"],
    ]


def mounts(unit: Unit, engines: Engines) -> list[Volume]:
    paths = engines["writablePaths"]
    models = {"name": "models", "mountPath": MODELS_DIR, "readOnly": True}
    return [
        {"name": "cache", "mountPath": "/cache"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
        *({"name": f"writable-{i}", "mountPath": path} for i, path in enumerate(paths)),
        *([models] if unit["modelsVolume"] else []),
        *engines["volumeMounts"],
    ]


def _cache(release: Release) -> Volume:
    cache = release.values["engines"]["cache"]
    match cache["kind"]:
        case "claim":
            return {"persistentVolumeClaim": {"claimName": release.named("cache")}}
        case "existingClaim":
            return {"persistentVolumeClaim": {"claimName": cache["claimName"]}}
        case "ephemeral":
            return {"ephemeral": {"volumeClaimTemplate": {"spec": claim(cache)}}}
    return {"emptyDir": given(sizeLimit=cache["size"])}
