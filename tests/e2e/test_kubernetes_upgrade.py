"""`helm upgrade` to plans of other shapes under load, without a controller: no stage is ever away, no request lost.

The API server, its controller manager and scheduler are real, and so are both routers; nodes, kubelets, DNS and
engines are simulated. An engine takes STARTUP_S to start here; `python -m tests.benchmarks.bench_operations` has ten
minutes.
"""

import asyncio
from collections.abc import Iterator

import pytest

from cascadia.render.kubernetes.chart_values import merged
from tests.e2e.k8s_cluster import Cluster, cluster
from tests.e2e.k8s_operations import SETTINGS, Clients, ready_of, settled, shaped, until
from tests.e2e.k8s_release import SPACE, h100_nodes, helm
from tests.e2e.k8s_watch import watching
from tests.unit.deploy.chart import CHART
from tests.unit.deploy.matrix import values_of

STARTUP_S = 6.0
A = shaped(3, small=(1, 4), large=(4, 1))
B = shaped(3, small=[(1, 2), (2, 1)], large=(2, 2))
C = shaped(3, small=(2, 2), large=(8, 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(3), STARTUP_S, routers="real") as found:
        yield found


@pytest.mark.parametrize("major", [3, 4])
def test_plans_of_other_shapes_follow_each_other_and_nobody_notices(made: Cluster, major: int) -> None:
    def change(*arguments: str, to: dict[str, object] | None = None) -> None:
        helm(made, *arguments, values=to, major=major)

    async def main() -> None:
        values = {name: merged(values_of(plan), SETTINGS) for name, plan in (("A", A), ("B", B), ("C", C))}
        chart = ("cascadia", str(CHART))
        await asyncio.to_thread(change, "install", *chart, "--create-namespace", to=values["A"])
        await until(lambda: settled(made), "installed")
        clients = Clients(made)
        asking = asyncio.create_task(clients.run())
        with watching(made, SPACE) as seen:
            for name in ("B", "A", "C"):
                await asyncio.to_thread(change, "upgrade", *chart, to=values[name])
                took_s = await until(lambda: settled(made), f"upgraded to {name}")
                assert took_s > STARTUP_S - 1
            # In the middle of one the next: back to what ran before it.
            await asyncio.to_thread(change, "upgrade", *chart, to=values["B"])
            await asyncio.sleep(STARTUP_S / 2)
            await asyncio.to_thread(change, "rollback", "cascadia")
            await until(lambda: settled(made), "rolled back")
        await asyncio.sleep(2)
        clients.ended.set()
        await asking
        assert ready_of(made, "small") == 2
        assert ready_of(made, "large") == 1
        assert min(seen.fewest_ready.values()) >= 1, seen.fewest_ready
        assert seen.most <= 24
        assert clients.failed == []
        print(f"{clients.answered.total()} requests, 0 failed, fewest ready {seen.fewest_ready}")

    try:
        asyncio.run(main())
    finally:
        helm(made, "uninstall", "cascadia", "--wait", major=major)
