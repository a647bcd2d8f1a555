"""An API server that refuses, is slow, or answers nobody what it did: a move goes on, and takes no stage away."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cascadia.controller.move.backend import move
from cascadia.controller.move.state import reached
from tests.e2e.k8s_cluster import Cluster, cluster
from tests.e2e.k8s_flaky import REFUSALS, on_a_bad_day
from tests.e2e.k8s_release import SPACE, h100_nodes, h100_plan, installed, moving
from tests.e2e.k8s_watch import watching

NODES = 2
BEFORE = h100_plan(NODES, small=5, large=3)
AFTER = h100_plan(NODES, small=3, large=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(NODES), startup_s=0.2) as found:
        yield found


@pytest.fixture
def values(made: Cluster) -> Iterator[dict[str, Any]]:
    with installed(made, BEFORE) as found:
        yield found


@pytest.mark.parametrize(
    "ways",
    [
        (404,),
        tuple(each for each in REFUSALS if each != 404),
        ("unanswered", "slow"),
        ("page", "bare", "torn"),
    ],
)
def test_a_move_through_a_bad_day_is_the_move_of_a_good_one(
    made: Cluster, values: dict[str, Any], tmp_path: Path, ways: tuple[int | str, ...]
) -> None:
    async def main() -> None:
        async with moving(made, values, BEFORE, AFTER) as (backend, (old, _)):
            await backend.prepare(old)
            await move(backend, old.desired(old.rates_rps), at_once=8)
        with on_a_bad_day(made, tmp_path, 0.0, ways) as (found, server), watching(made, SPACE) as seen:
            async with moving(found, values, BEFORE, AFTER) as (backend, (_, new)):
                server.share = 0.05
                need = {kind.stage: 2 * each.capacity_rps for kind, each in new.made.items()}
                await move(backend, new.desired({}), need_rps=need, at_once=2)
                server.share = 0.0
                assert reached(await backend.observe(), new.desired({}))
        assert sum(server.went[way] for way in ways) >= 5
        assert seen.most <= 8 * NODES
        assert seen.fewest_ready["small"] >= 2
        assert seen.fewest_ready["large"] >= 2

    asyncio.run(main())
