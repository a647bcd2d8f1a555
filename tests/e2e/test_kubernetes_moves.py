"""Moves on a real API server, with its scheduler and controller manager; nodes and kubelets are simulated."""

import asyncio
from collections.abc import Iterator

import pytest

from cascadia.controller.backend import move
from cascadia.controller.fleet import reached
from tests.e2e.k8s_cluster import Cluster, cluster
from tests.e2e.k8s_release import h100_nodes, h100_plan, helm, install, moving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=0.2) as found:
        yield found


def test_a_plan_is_brought_about_and_changed(made: Cluster) -> None:
    before, after = h100_plan(1, small=4, large=2), h100_plan(1, small=2, large=3)
    values = install(made, before)

    async def main() -> None:
        import time

        t = time.monotonic()

        def note(step):
            print(round(time.monotonic() - t, 2), step)

        async with moving(made, values, before, after) as (backend, (old, new)):
            await backend.prepare(old)
            await move(backend, old.desired(old.rates_rps), at_once=6, note=note)
            assert reached(await backend.observe(), old.desired({}))
            steps: list[str] = []
            await move(backend, new.desired({}), note=note)
            print(steps)
            assert reached(await backend.observe(), new.desired({}))

    asyncio.run(main())
    helm(made, "uninstall", "cascadia")
