"""Traffic changes, and a controller on a real API server notices, plans anew and moves. Kubelets, DNS, engines are
simulated; the routers and the controller are the real programs, and the planner is."""

import asyncio
import base64
import json
import random
import subprocess
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.domain.plan import Plan
from cascadia.files.plan_file import parse_plan, read_plan
from tests.e2e.k8s_cluster import PATIENCE_S, Cluster, cluster, until
from tests.e2e.k8s_controllers import API, PROGRAM, Controllers
from tests.e2e.k8s_release import SPACE, h100_nodes, install, ready_routers
from tests.e2e.k8s_watch import watching
from tests.unit.planner.specs import valid_spec, write_spec

QUIET_RPS, BUSY_RPS = 4.0, 25.0
QUIET_S = 60.0
INPUT_TOKENS, OUTPUT_TOKENS = 500, 600
SETTINGS: dict[str, Any] = {
    "router": {"config": {"samples": {"folder": "samples", "seconds": 1}, "page": False}},
    # Longer than the simulated DNS tells of a pod that has left.
    "engines": {"preStopSeconds": 3},
}
HASTE = ["--arrivals-lag=3", "--lag=3", "--requests=100", "--startup=5", "--at-once=2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), h100_nodes(1), startup_s=1.0, routers="real") as found:
        yield found


def write_inputs(folder: Path) -> None:
    """Two stages on one node of eight GPUs, as cheap as may be; the small one is as good where it is sure."""
    spec = valid_spec()
    spec["stages"] = [spec["stages"][0], {**spec["stages"][1], "name": "large"}]
    spec["cluster"]["pools"][0]["nodes"] = 1
    spec["judge"] = {"kind": "certainty"}
    spec["workload"]["rate_rps"] = QUIET_RPS
    spec["quality"]["confidence"] = 0.9
    spec["objective"] = {"minimize": "cost", "quality_min": 80, "latency_max_s": 60}
    write_spec(folder, spec)
    lengths = f"{INPUT_TOKENS},{OUTPUT_TOKENS}"
    trace = [f"{i / 2},{lengths}" for i in range(1200)]
    (folder / "trace.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *trace]))
    rows = [
        f"p{i},{stage},{i},{95 if stage == 'large' or i >= 30 else 20},{lengths}"
        for i in range(100)
        for stage in ("small", "large")
    ]
    names = "prompt_id,stage,score,quality,input_tokens,output_tokens"
    (folder / "quality.csv").write_text("\n".join([names, *rows]))


class Traffic:
    """Asks the cascade at `rps`, Poisson, each router in turn, whether or not there have been answers."""

    def __init__(self, addresses: list[str], rps: float) -> None:
        self.rps = rps
        self.statuses: Counter[str] = Counter()
        self._addresses = addresses
        self._ended = threading.Event()

    async def run(self) -> None:
        draw = random.Random(1)
        async with httpx.AsyncClient(timeout=60) as client, asyncio.TaskGroup() as asked:
            while not self._ended.is_set():
                asked.create_task(self._ask(client, draw.choice(self._addresses)))
                await asyncio.sleep(draw.expovariate(self.rps))

    async def _ask(self, client: httpx.AsyncClient, address: str) -> None:
        words = [{"role": "user", "content": "why " * INPUT_TOKENS}]
        body = {"model": "cascadia", "messages": words, "max_tokens": OUTPUT_TOKENS}
        answer = await client.post(f"http://{address}:8000/v1/chat/completions", json=body)
        self.statuses[f"{answer.status_code}"] += 1

    @contextmanager
    def flowing(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self.run()))
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(60)


def in_force(on: Cluster) -> Plan:
    """The plan that the controller's ConfigMap says to be so."""
    state = on.get(f"{API}/configmaps/cascadia-controller-state")
    said = json.loads(state["data"]["move.json"])
    assert said["move"] is None
    packed = state["binaryData"][said["in_force"]]
    return parse_plan(zlib.decompress(base64.b64decode(packed)).decode(), "the state")


def time_line(entries: list[dict[str, Any]], changed_s: float) -> str:
    at_s = {entry["kind"]: entry["at_s"] - changed_s for entry in entries}
    return ", ".join(f"{kind} after {at_s[kind]:.1f} s" for kind in ("alarm", "decision", "begun", "moved"))


def test_a_jump_of_the_rate_is_noticed_planned_for_and_moved_to(made: Cluster, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    told = ["plan", "cascade.yaml", "--out", "plan", "--no-report"]
    subprocess.run([PROGRAM, *told], cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_S)
    before = read_plan(tmp_path / "plan")
    install(made, before, SETTINGS)
    controllers = Controllers(made, tmp_path)
    controllers.give(before)
    try:
        controllers.start(*HASTE)
        controllers.until_said("held")
        until(lambda: len(ready_routers(made)) == 2, "two routers")
        traffic = Traffic(ready_routers(made), QUIET_RPS)
        with traffic.flowing(), watching(made, SPACE) as seen:
            time.sleep(QUIET_S)
            known = len(controllers.history())
            traffic.rps, changed_s = BUSY_RPS, time.time()
            entries = controllers.until_said("moved", since=known)[known:]
        # Engines here are as fast as they are, which is told too; a busy machine sends in fits, each of them an alarm.
        said = [entry for entry in entries if entry["kind"] not in ("step", "speed")][-4:]
        assert [entry["kind"] for entry in said] == ["alarm", "decision", "begun", "moved"], entries
        assert "rate changed" in said[0]["what"]
        assert "today's plan no longer holds" in said[1]["what"]
        after = in_force(made)
        assert after.gpus > before.gpus
        wanted = {stage.name: sum(group.count for group in stage.replicas) for stage in after.stages}
        assert seen.ready() == wanted
        assert seen.most <= 8
        assert min(seen.fewest_ready.values()) >= 1
        assert set(traffic.statuses) == {"200"}
        print(f"{time_line(entries, changed_s)}; {traffic.statuses.total()} requests, 0 failed")
    finally:
        controllers.end()
