"""A move on a real API server while two real routers serve: no request fails. Kubelets, DNS, engines are simulated."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cascadia.controller.move.backend import move
from cascadia.controller.move.state import reached
from tests.e2e.k8s_cluster import Cluster, cluster, until
from tests.e2e.k8s_release import h100_nodes, h100_plan, install, moving, ready_routers

BEFORE, AFTER = h100_plan(1, small=4, large=2), h100_plan(1, small=2, large=3)
CLIENTS = 6
PRE_STOP_S = 3
SETTINGS = {
    "router": {"config": {"samples": {"folder": "samples", "seconds": 30}, "page": False}},
    # Longer than the simulated DNS tells of a pod that has left.
    "engines": {"preStopSeconds": PRE_STOP_S},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=1.0, routers="real") as found:
        yield found


class Load:
    """Asks without pause, each of the stages and routers in turn, until it is ended."""

    def __init__(self, addresses: list[str]) -> None:
        self._targets = itertools.cycle(itertools.product(addresses, ("small", "large")))
        self.answered: Counter[str] = Counter()
        self.failed: list[str] = []
        self.ended = asyncio.Event()

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            await asyncio.gather(*(self._ask(client) for _ in range(CLIENTS)))

    async def _ask(self, client: httpx.AsyncClient) -> None:
        while not self.ended.is_set():
            address, model = next(self._targets)
            body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
            answer = await client.post(f"http://{address}:8000/v1/chat/completions", json=body)
            if answer.status_code == 200:
                self.answered[answer.json()["choices"][0]["message"]["content"]] += 1
            else:
                self.failed.append(f"{answer.status_code} {answer.text[:200]}")


def test_no_request_fails_while_replicas_come_and_go(made: Cluster) -> None:
    values = install(made, BEFORE, SETTINGS)

    async def main() -> None:
        async with moving(made, values, BEFORE, AFTER) as (backend, (old, new)):
            await backend.prepare(old)
            await move(backend, old.desired({}), at_once=6)
            await asyncio.to_thread(until, lambda: len(ready_routers(made)) == 2, "two routers")
            load = Load(ready_routers(made))
            loading = asyncio.create_task(load.run())
            await asyncio.sleep(2)
            before = load.answered.total()
            await move(backend, new.desired({}))
            assert reached(await backend.observe(), new.desired({}))
            during = load.answered.total() - before
            # The last that started is in DNS by then: a move waits for that only before something relies on it.
            await asyncio.sleep(PRE_STOP_S + 1)
            known = set(load.answered)
            load.ended.set()
            await loading
            assert load.failed == []
            assert during > 100
            # Every replica of both plans has answered something, the new one as well.
            assert len(known) == 4 + 3
            print(f"{load.answered.total()} requests, {during} of them during the move, 0 failed")

    asyncio.run(main())
