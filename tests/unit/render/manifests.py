"""Reading rendered Kubernetes objects."""

from collections.abc import Iterator
from typing import Any

from cascadia.domain.plan import Plan
from cascadia.render import render
from tests.unit.render.reading import documents

Object = dict[str, Any]


WITHOUT_DASHBOARDS = {"monitoring": {"dashboards": {"enabled": False}}}
"""A long text of its own, which changes for reasons of its own."""


def objects(plan: Plan) -> list[Object]:
    return documents(render(plan, plan.cluster, "kubernetes", values=WITHOUT_DASHBOARDS))


def of_kind(found: list[Object], kind: str) -> dict[str, Object]:
    return {o["metadata"]["name"]: o for o in found if o["kind"] == kind}


def pods(found: list[Object]) -> Iterator[tuple[int, Object]]:
    """Each pod template of an engine with the number of pods made from it."""
    for o in found:
        spec = o.get("spec", {})
        if o["metadata"]["labels"]["app.kubernetes.io/component"] not in ("stage", "judge"):
            continue
        if o["kind"] == "Deployment" and "cascadia/pool" in o["metadata"].get("annotations", {}):
            yield spec["replicas"], spec["template"]
        elif o["kind"] == "LeaderWorkerSet":
            group = spec["leaderWorkerTemplate"]
            yield spec["replicas"], group["leaderTemplate"]
            yield spec["replicas"] * (group["size"] - 1), group["workerTemplate"]


def engines(found: list[Object], kind: str = "Deployment") -> dict[str, Object]:
    return {name: o for name, o in of_kind(found, kind).items() if list(pods([o]))}


def gpus(found: list[Object]) -> int:
    total = 0
    for count, pod in pods(found):
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        total += count * sum(int(value) for name, value in limits.items() if name.endswith("/gpu"))
    return total


def only_container(pod: Object) -> Object:
    (container,) = pod["spec"]["containers"]
    return dict(container)
