"""Labels and annotations that tie objects to a stage and a plan."""

from typing import Any

from cascadia.render.kubernetes.engines.units import Group, Unit
from cascadia.render.kubernetes.release import Release


def unit_metadata(release: Release, unit: Unit, stem: str) -> dict[str, Any]:
    """Metadata of an object for all groups of a unit, or (its name apart) for one."""
    found = release.metadata(stem, unit["role"])
    found["labels"] |= {"cascadia/service": unit["name"]}
    found["annotations"] = {
        "cascadia/served-model-name": unit["servedModelName"],
        "cascadia/plan": release.values["plan"]["digest"],
    }
    return found


def group_metadata(release: Release, unit: Unit, group: Group) -> dict[str, Any]:
    """`share` is of the unit's requests: what the router gives the group as a whole."""
    found = unit_metadata(release, unit, group["name"])
    found["labels"] = pod_labels(release, unit, group)
    found["annotations"] |= {"cascadia/pool": group["pool"], "cascadia/share": f"{group['share']:.6g}"}
    return found


def unit_selector(release: Release, unit: Unit) -> dict[str, str]:
    return release.selector(cascadia__service=unit["name"])


def group_selector(release: Release, group: Group) -> dict[str, str]:
    return release.selector(cascadia__workload=group["name"])


def pod_labels(release: Release, unit: Unit, group: Group) -> dict[str, str]:
    return {
        **release.labels(unit["role"]),
        "cascadia/service": unit["name"],
        "cascadia/workload": group["name"],
        "app.kubernetes.io/name": unit["engine"],
        "app.kubernetes.io/version": unit["engineVersion"],
    }
