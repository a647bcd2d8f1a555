"""`cascadia up` with real engines: llama.cpp on a real model, three replicas on this machine's cores."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cascadia.clients.processes.ports import free_port
from cascadia.controller.local.engines_file import Engine, Local, read_local
from cascadia.controller.local.plans import LocalPlans
from cascadia.controller.move.backend import move
from cascadia.controller.move.state import reached
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.files.plan_file import write_plan
from cascadia.testing.plans import plan, stage
from tests.e2e.commands import told
from tests.e2e.engine_commands import llama_command
from tests.unit.controller.machine import NO_GPU_JUDGE

ASK = {"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 2}


def on_cores(small: int, large: int, threshold: float) -> Plan:
    """Three cores, shared in turn where the machine has fewer."""
    cluster = Cluster((Pool("here", "cpu", 1, 3, 0.04),))
    made = plan(
        [
            stage("small", ReplicaGroup("here", 1, 1, small, 1.0), max_model_len=1024),
            stage("large", ReplicaGroup("here", 1, 1, large, 1.0), max_model_len=1024),
        ],
        cluster,
        NO_GPU_JUDGE,
    )
    return replace(made, thresholds=(threshold,))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    server = llama_command("{port}", 4, 1024)
    engines = {
        name: Engine(command=server, model="smol", startup_s=120, drain_s=60, max_concurrency=4)
        for name in ("small", "large")
    }
    local = Local(stages=engines, router={"port": free_port()})
    (tmp_path / "local.yaml").write_text(local.model_dump_json())
    write_plan(on_cores(1, 2, 50.0), tmp_path / "one-two.json")
    write_plan(on_cores(2, 1, 101.0), tmp_path / "two-one.json")
    told(tmp_path, "up", "one-two.json", "--engines", "local.yaml", "--detach")
    yield tmp_path
    told(tmp_path, "down")


def test_real_engines_are_moved_from_one_and_two_to_two_and_one_under_load(folder: Path) -> None:
    """With a change of threshold; no request fails, and each replica that both plans have stays."""
    plans = LocalPlans(folder / "cascadia-run", read_local(folder / "local.yaml"))
    url = told(folder, "status")["router"]["url"]
    before = {replica["name"]: replica["pid"] for replica in told(folder, "status")["replicas"]}

    async def load(client: httpx.AsyncClient, statuses: list[int], stop: asyncio.Event) -> None:
        while not stop.is_set():
            for model in ("cascadia", "small", "large"):
                answer = await client.post("/v1/chat/completions", json={"model": model, **ASK})
                statuses.append(answer.status_code)

    async def main() -> list[int]:
        statuses: list[int] = []
        stop = asyncio.Event()
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
            loads = [asyncio.create_task(load(client, statuses, stop)) for _ in range(3)]
            desired = plans.desired(folder / "two-one.json", {})
            await move(plans.backend, desired)
            assert reached(await plans.backend.observe(), desired)
            stop.set()
            await asyncio.gather(*loads)
            after = await client.post("/v1/chat/completions", json={"model": "cascadia", **ASK})
            assert after.headers["x-cascadia-stage"] == "large", "a threshold of 101 accepts nothing before"
        return statuses

    statuses = asyncio.run(main())
    assert len(statuses) > 0
    assert set(statuses) == {200}
    after = {replica["name"]: replica["pid"] for replica in told(folder, "status")["replicas"]}
    assert len(set(before.values()) & set(after.values())) == 2
