"""What an upgrade from one plan to another leaves standing: pods of the old plan serve until those of the new do.

Kubernetes' own rolling update does the rest (tests/e2e/test_kubernetes_upgrade.py, on a real API server): it needs that
the same objects stay, that they may be changed so, and that all that lets a router reach the old pods is there still.
"""

from itertools import permutations
from typing import Any

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import JudgePlan, ReplicaGroup
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.kubernetes.manifests import objects
from cascadia.render.kubernetes.release import Release
from cascadia.testing.plans import plan, stage
from tests.unit.deploy.matrix import values_of

POOLS = Cluster((Pool("h100", "h100-sxm", 5, 8, 2.67), Pool("l4", "l4", 4, 4, 0.8)))

SHAPES = {
    "one of four GPUs": [ReplicaGroup("h100", 4, 1, 1, 1.0)],
    "two of two GPUs": [ReplicaGroup("h100", 2, 1, 2, 1.0)],
    "two kinds of GPU": [ReplicaGroup("h100", 1, 1, 4, 0.7), ReplicaGroup("l4", 2, 1, 2, 0.3)],
    "the other kind of GPU": [ReplicaGroup("l4", 4, 1, 1, 1.0)],
}
JUDGES = {
    name: JudgePlan(
        "llm",
        "self-hosted",
        "org/judge",
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=tuple(groups),
    )
    for name, groups in SHAPES.items()
}
Objects = dict[tuple[str, str], dict[str, Any]]


def release_of(shape: str, over: dict[str, Any] | None = None) -> Objects:
    values = values_of(
        plan([stage("small", *SHAPES[shape]), stage("large", *SHAPES[shape])], POOLS, JUDGES[shape])
    )
    found = objects(Release(merged(defaults(), merged(values, over or {}))))
    return {(o["kind"], o["metadata"]["name"]): o for o in found}


def covers(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    exist = (one["key"] for one in selector.get("matchExpressions", ()))
    return selector.get("matchLabels", {}).items() <= labels.items() and labels.keys() >= set(exist)


@pytest.mark.long(in_ci=9)
@pytest.mark.parametrize(("before", "after"), list(permutations(SHAPES, 2)))
@pytest.mark.parametrize("unit", ["small", "large", "judge"])
def test_old_pods_are_reached_until_new_ones_are(before: str, after: str, unit: str) -> None:
    old, new = release_of(before), release_of(after)
    was, becomes = (
        old["Deployment", f"cascadia-{unit}-0"]["spec"],
        new["Deployment", f"cascadia-{unit}-0"]["spec"],
    )
    # A rolling update of one object: its selector may not change, and it keeps one that is ready.
    assert was["selector"] == becomes["selector"]
    assert was["template"] != becomes["template"]
    rolling = becomes["strategy"]["rollingUpdate"]
    assert becomes["replicas"] - rolling["maxUnavailable"] >= 1
    assert rolling["maxSurge"] + rolling["maxUnavailable"] >= 1
    labels = was["template"]["metadata"]["labels"]
    assert covers(becomes["selector"], labels)
    assert covers({"matchLabels": new["Service", f"cascadia-{unit}-0-http"]["spec"]["selector"]}, labels)
    assert covers(new["PodDisruptionBudget", f"cascadia-{unit}"]["spec"]["selector"], labels)
    assert covers(new["NetworkPolicy", "cascadia-engines"]["spec"]["podSelector"], labels)
    told = new["ConfigMap", "cascadia-router"]["data"]["router.yaml"]
    assert f"http://cascadia-{unit}-0-http:8000" in told


def rolling_of(replicas: int, upgrade: dict[str, Any]) -> tuple[int, int]:
    values = values_of(plan([stage("large", ReplicaGroup("h100", 1, 1, replicas, 1.0))], POOLS))
    over = {"engines": {"upgrade": upgrade}}
    found = {o["metadata"]["name"]: o for o in objects(Release(merged(defaults(), merged(values, over))))}
    rolling = found["cascadia-large-0"]["spec"]["strategy"]["rollingUpdate"]
    return rolling["maxSurge"], rolling["maxUnavailable"]


def test_an_only_replica_waits_for_its_successor_and_of_several_one_makes_room() -> None:
    assert rolling_of(1, {}) == (1, 0)
    assert rolling_of(2, {}) == (1, 1)
    assert rolling_of(8, {}) == (1, 1)


def test_a_cluster_without_free_gpus_can_be_told_so() -> None:
    assert rolling_of(4, {"maxUnavailable": 9, "maxSurge": 0}) == (0, 3)
    assert rolling_of(1, {"maxUnavailable": 9, "maxSurge": 0}) == (1, 0)  # Kubernetes refuses 0 of both
    assert rolling_of(1, {"takeLast": ["large"], "maxSurge": 0}) == (0, 1)
    assert rolling_of(1, {"takeLast": ["small"]}) == (1, 0)


def test_an_embedding_judge_may_become_one_that_is_an_engine() -> None:
    """Objects of the same name and kind may differ in what Kubernetes lets nobody change."""
    embedding = values_of(
        plan(
            [stage("small", *SHAPES["one of four GPUs"]), stage("large", *SHAPES["one of four GPUs"])], POOLS
        )
    )
    old = {(o["kind"], o["metadata"]["name"]): o for o in objects(Release(merged(defaults(), embedding)))}
    new = release_of("one of four GPUs")
    assert ("Deployment", "cascadia-judge") in old
    assert ("Deployment", "cascadia-judge-0") in new
    for kind, name in old.keys() & new.keys():
        if kind == "Deployment":
            assert old[kind, name]["spec"]["selector"] == new[kind, name]["spec"]["selector"]
