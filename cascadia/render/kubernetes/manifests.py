"""All objects of a release in the order in which they are to be applied."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.chart_values import Values, defaults, merged
from cascadia.render.kubernetes.checks import check
from cascadia.render.kubernetes.controller import controller
from cascadia.render.kubernetes.engines.units import slots, units
from cascadia.render.kubernetes.engines.workloads import unit_objects, workload
from cascadia.render.kubernetes.ingress import ingress
from cascadia.render.kubernetes.judge_service import judge_service
from cascadia.render.kubernetes.monitoring import monitoring
from cascadia.render.kubernetes.network import network_policies
from cascadia.render.kubernetes.release import Release
from cascadia.render.kubernetes.router import router
from cascadia.render.kubernetes.shared import shared
from cascadia.render.yaml_text import yaml_text

Object = dict[str, Any]


def kubernetes_yaml(values: Values, namespace: str) -> str:
    """`values` are the plan's, and a user's over them; the chart's own are put under them.

    Raises `BadInput` where no valid objects can be made of them.
    """
    release = Release(merged(defaults(), values), namespace=namespace)
    check(release)
    return yaml_text(objects(release))


def objects(release: Release) -> Iterator[Object]:
    """Objects that the chart's templates make of the same release, object by object.

    Workloads come with the largest pods first: small ones would scatter and leave no node
    whole.
    """
    yield from shared(release)
    yield from network_policies(release)
    # With the controller on, engines are its alone: two who write one object undo each other's work.
    engines = [] if release.values["controller"]["enabled"] else units(release.values)
    for unit in engines:
        yield from unit_objects(release, unit)
    placed = [(unit, group, slot) for unit in engines for slot, group in slots(unit)]
    for of, group, slot in sorted(placed, key=lambda found: -int(found[1]["gpusPerPod"])):
        yield workload(release, of, group, slot)
    yield from judge_service(release)
    yield from router(release)
    yield from ingress(release)
    yield from controller(release)
    yield from monitoring(release)
