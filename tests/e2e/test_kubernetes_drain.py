"""A node with a stage's only replica is drained under load, as `kubectl drain` does: no stage is away, nothing is lost.

The API server and its controllers are real, and so are both routers and `cascadia controller`; nodes, kubelets, DNS and
engines are simulated.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cascadia.render.kubernetes.chart_values import merged
from tests.e2e.k8s_cluster import Cluster, cluster
from tests.e2e.k8s_controllers import Controllers
from tests.e2e.k8s_operations import (
    SETTINGS,
    Clients,
    cordon,
    engine_pods,
    evict,
    ready_of,
    scale,
    settled,
    shaped,
    until,
)
from tests.e2e.k8s_release import SPACE, h100_nodes, helm, install
from tests.e2e.k8s_watch import watching
from tests.unit.controller.specs import write_spec_of
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.matrix import values_of
from tests.unit.planner.specs import write_inputs

STARTUP_S = 4.0
PLAN = shaped(2, small=(1, 3), large=(4, 1))
TWICE = shaped(2, small=(1, 3), large=(4, 2))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(2), STARTUP_S, routers="real") as found:
        yield found


def node_of_large(on: Cluster) -> str:
    (node,) = {
        p["spec"]["nodeName"]
        for p in engine_pods(on)
        if p["metadata"]["labels"]["cascadia/service"] == "large"
    }
    return str(node)


async def drained(on: Cluster, node: str) -> None:
    await until(lambda: not evict(on, node), f"{node} is empty")


def test_a_drain_waits_for_a_second_replica_that_an_operator_starts(made: Cluster) -> None:
    async def main() -> None:
        values = merged(values_of(PLAN), SETTINGS)
        arguments = ("install", "cascadia", str(CHART), "--create-namespace")
        await asyncio.to_thread(helm, made, *arguments, values=values)
        await until(lambda: settled(made), "installed")
        clients = Clients(made)
        asking = asyncio.create_task(clients.run())
        node = node_of_large(made)
        with watching(made, SPACE) as seen:
            cordon(made, node)
            for _ in range(5):
                evict(made, node)
                await asyncio.sleep(1)
            assert ready_of(made, "large") == 1
            scale(made, "cascadia-large-0", 2)
            await drained(made, node)
            scale(made, "cascadia-large-0", 1)
            await until(lambda: settled(made), "at rest")
            cordon(made, node, False)
            # Who scaled last owns the number: Helm 4 asks for leave to set another.
            upgrade = ("upgrade", "cascadia", str(CHART), "--force-conflicts")
            await asyncio.to_thread(helm, made, *upgrade, values=merged(values_of(TWICE), SETTINGS))
            await until(lambda: settled(made) and ready_of(made, "large") == 2, "upgraded")
        clients.ended.set()
        await asking
        assert min(seen.fewest_ready.values()) >= 1, seen.fewest_ready
        assert clients.failed == []

    try:
        asyncio.run(main())
    finally:
        helm(made, "uninstall", "cascadia", "--wait")


def test_a_controller_starts_the_only_replica_elsewhere_before_a_drain_takes_it(
    made: Cluster, tmp_path: Path
) -> None:
    async def main() -> None:
        await until(lambda: not list(engine_pods(made)), "nothing is left")
        install(made, PLAN, merged(SETTINGS, {"controller": {"enabled": True}}))
        write_inputs(tmp_path)
        write_spec_of(PLAN, tmp_path)
        controllers = Controllers(made, tmp_path)
        controllers.give(PLAN)
        try:
            controllers.start()
            await asyncio.to_thread(controllers.until_said, "held")
            await until(lambda: settled(made), "installed")
            clients = Clients(made)
            asking = asyncio.create_task(clients.run())
            node = node_of_large(made)
            with watching(made, SPACE) as seen:
                cordon(made, node)
                await drained(made, node)
                await until(lambda: ready_of(made, "small") == 3, "all are elsewhere")
            cordon(made, node, False)
            clients.ended.set()
            await asking
            assert seen.fewest_ready["large"] >= 1
            assert seen.fewest_ready["small"] >= 2
            assert clients.failed == []
            said = [entry["what"] for entry in controllers.history()]
            assert any(what.startswith("start large-") and what.endswith(f"to empty {node}") for what in said)
        finally:
            controllers.end()

    try:
        asyncio.run(main())
    finally:
        helm(made, "uninstall", "cascadia", "--wait")
