"""Moves that have to do with single nodes on a real API server, whose scheduler scatters pods as it does by default.

Replicas over several nodes are of the real definition of LeaderWorkerSet; its operator is simulated (`k8s_groups.py`),
as are kubelets. KEDA has no operator here: its object is taken, and nothing scales by it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cascadia.controller.move.backend import move
from cascadia.controller.move.state import reached
from cascadia.controller.move.steps import Start
from cascadia.domain.cluster import Cluster as Gpus
from cascadia.domain.cluster import Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.testing.plans import plan, stage
from tests.e2e.k8s_cluster import Cluster, cluster, until
from tests.e2e.k8s_definitions import define
from tests.e2e.k8s_groups import SETS, operating
from tests.e2e.k8s_release import (
    CERTAINTY,
    SPACE,
    h100_nodes,
    h100_plan,
    helm,
    installed,
    moving,
    values_with_controller,
)
from tests.e2e.k8s_watch import watching
from tests.unit.deploy.chart import CHART

NODES = 4
PODS = f"/api/v1/namespaces/{SPACE}/pods"


def two_stages(pp: int) -> Plan:
    """The large stage is one replica of eight GPUs a node, over `pp` nodes."""
    pools = Gpus((Pool("h100", "h100-sxm", NODES, 8, 2.5),))
    small = stage("small", ReplicaGroup("h100", 1, 1, 2, 1.0))
    return plan([small, stage("large", ReplicaGroup("h100", 8, pp, 1, 1.0))], pools, CERTAINTY)


ONE, TWO = two_stages(pp=1), two_stages(pp=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(NODES), startup_s=0.5, packs=False) as found:
        define(found, "leaderworkerset.x-k8s.io_leaderworkersets")
        define(found, "keda.sh_scaledobjects")
        with operating(found):
            yield found


@pytest.fixture
def values(made: Cluster) -> Iterator[dict[str, Any]]:
    with installed(made, ONE) as found:
        yield found
    assert made.get(SETS)["items"] == []


def group(on: Cluster) -> list[dict[str, Any]]:
    """Pods of the large stage."""
    found = on.get(PODS)["items"]
    return [pod for pod in found if pod["metadata"]["labels"].get("cascadia/service") == "large"]


def test_a_replica_over_two_nodes_starts_serves_drains_and_stops(
    made: Cluster, values: dict[str, Any]
) -> None:
    async def main() -> None:
        async with moving(made, values, ONE, TWO) as (backend, (one, two)):
            await backend.prepare(one)
            await move(backend, one.desired({}), at_once=3)
            with watching(made, SPACE) as seen:
                await move(backend, two.desired({}))
                assert reached(await backend.observe(), two.desired({}))
                ranks = group(made)
                assert len(ranks) == 2
                assert len({pod["spec"]["nodeName"] for pod in ranks}) == 2
                observed = await backend.observe()
                (large,) = [r for r in observed.replicas if r.kind.stage == "large"]
                assert set(large.on) == {pod["spec"]["nodeName"] for pod in ranks}
                await move(backend, one.desired({}))
                assert reached(await backend.observe(), one.desired({}))
            assert len(group(made)) == 1
            assert made.get(SETS)["items"] == []
            assert max(seen.most_by_node.values()) <= 8

    asyncio.run(main())


def test_when_one_pod_of_a_replica_fails_all_start_anew_and_it_serves_again(
    made: Cluster, values: dict[str, Any]
) -> None:
    async def main() -> None:
        async with moving(made, values, TWO) as (backend, (two,)):
            await backend.prepare(two)
            await move(backend, two.desired({}), at_once=3)
            before = {pod["metadata"]["uid"] for pod in group(made)}
            (worker,) = [p["metadata"]["name"] for p in group(made) if p["metadata"]["name"].endswith("-0-1")]
            merge = {"content-type": "application/merge-patch+json"}
            failed = made.ask("PATCH", f"{PODS}/{worker}/status", {"status": {"phase": "Failed"}}, **merge)
            failed.raise_for_status()

            def others() -> set[str]:
                return {pod["metadata"]["uid"] for pod in group(made)} - before

            await asyncio.to_thread(until, lambda: len(others()) == 2, "both pods are made anew")
            # Nothing is to be done but to wait: the replica is the same.
            steps: list[str] = []
            await move(backend, two.desired({}), note=lambda step: steps.append(str(step)))
            assert [step.split()[0] for step in steps] in ([], ["await"])
            assert reached(await backend.observe(), two.desired({}))

    asyncio.run(main())


def test_a_node_is_emptied_for_a_replica_that_finds_none(made: Cluster, values: dict[str, Any]) -> None:
    """Two small replicas on each node: a large one of eight GPUs has to have a node of its own."""
    few, more = h100_plan(NODES, small=8, large=0), h100_plan(NODES, small=8, large=1, large_tp=8)

    async def main() -> None:
        async with moving(made, values, few, more) as (backend, (old, new)):
            await backend.prepare(old)
            (kind,) = old.made
            for i in range(8):
                await backend.take(Start(f"small-{i}", kind, machine=f"h100-{i // 2}"))
            await move(backend, old.desired({}))
            placed = Counter(node for r in (await backend.observe()).replicas for node in r.on)
            assert set(placed.values()) == {2}
            steps: list[str] = []
            with watching(made, SPACE) as seen:
                await move(backend, new.desired({}), note=lambda step: steps.append(str(step)))
            assert reached(await backend.observe(), new.desired({}))
            assert sum("to empty" in step for step in steps) == 2
            assert max(seen.most_by_node.values()) <= 8
            assert seen.fewest_ready["small"] >= 8

    asyncio.run(main())


def test_kedas_object_is_what_its_definition_asks_for(made: Cluster) -> None:
    """There is no operator: the API server takes the object, and nothing scales by it."""
    keda = {"keda": {"enabled": True}, "controller": {"enabled": False}}
    values = values_with_controller(ONE, keda)
    helm(made, "install", "cascadia", str(CHART), "--create-namespace", values=values)
    try:
        (found,) = made.get(f"/apis/keda.sh/v1alpha1/namespaces/{SPACE}/scaledobjects")["items"]
        assert found["spec"]["scaleTargetRef"]["name"] == "cascadia-router"
        assert found["spec"]["triggers"][0]["type"] == "prometheus"
    finally:
        helm(made, "uninstall", "cascadia", "--wait")
        until(lambda: not made.get(PODS)["items"], "no pod is left")
