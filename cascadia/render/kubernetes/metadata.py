"""Labels and annotations that tie objects to a stage and a plan."""

from typing import Any

from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import VERSION

SERVES = "cascadia/serves"
"""Marks the pods that answer HTTP: the first rank of each replica."""


def metadata(group: EngineGroup, name: str, digest: str) -> dict[str, Any]:
    """Of an object for all groups of a stage (a Service), or, with `workload_metadata`, for one."""
    return {
        "name": name,
        "labels": _common(group),
        "annotations": {"cascadia/served-model-name": group.served_name, "cascadia/plan": digest},
    }


def workload_metadata(group: EngineGroup, digest: str) -> dict[str, Any]:
    """`share` is of the stage's requests: what a router gives the group as a whole."""
    found = metadata(group, group.name, digest)
    found["labels"] = pod_labels(group)
    found["annotations"] |= {"cascadia/pool": group.pool, "cascadia/share": f"{group.share:.6g}"}
    return found


def stage_selector(group: EngineGroup) -> dict[str, str]:
    return {"cascadia/service": group.service}


def group_selector(group: EngineGroup) -> dict[str, str]:
    return {"cascadia/workload": group.name}


def pod_labels(group: EngineGroup) -> dict[str, str]:
    return {
        **_common(group),
        **group_selector(group),
        "app.kubernetes.io/name": group.engine,
        "app.kubernetes.io/version": VERSION[group.engine],
    }


def _common(group: EngineGroup) -> dict[str, str]:
    return {
        "app.kubernetes.io/part-of": "cascadia",
        "app.kubernetes.io/component": group.role,
        **stage_selector(group),
    }
