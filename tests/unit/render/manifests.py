"""Reading rendered Kubernetes objects."""

from collections.abc import Iterator
from typing import Any

from cascadia.domain.plan import Plan
from cascadia.render import render
from tests.unit.render.reading import documents

Object = dict[str, Any]


def objects(plan: Plan) -> list[Object]:
    return documents(render(plan, plan.cluster, "kubernetes"))


def of_kind(found: list[Object], kind: str) -> dict[str, Object]:
    return {o["metadata"]["name"]: o for o in found if o["kind"] == kind}


def pods(found: list[Object]) -> Iterator[tuple[int, Object]]:
    """Each pod template with the number of pods made from it."""
    for o in found:
        spec = o["spec"]
        if o["kind"] == "Deployment":
            yield spec["replicas"], spec["template"]
        elif o["kind"] == "LeaderWorkerSet":
            group = spec["leaderWorkerTemplate"]
            yield spec["replicas"], group["leaderTemplate"]
            yield spec["replicas"] * (group["size"] - 1), group["workerTemplate"]


def gpus(found: list[Object]) -> int:
    total = 0
    for count, pod in pods(found):
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        total += count * sum(int(value) for value in limits.values())
    return total


def only_container(pod: Object) -> Object:
    (container,) = pod["spec"]["containers"]
    return dict(container)
