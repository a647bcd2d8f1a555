"""From a spec to answers with real one-pass models: measure, plan, up, ask, down."""

import asyncio
import json
import math
import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import yaml

from cascadia.clients.processes.ports import free_port
from tests.benchmarks.bench_onepass import NAMES, family, texts
from tests.e2e.commands import told

SPEC = {
    "stages": [
        {"name": name.removesuffix("-int8"), "model": f"models/{name}", "task": "classify", "group": "guard"}
        for name in NAMES
    ],
    "latency": "family.json",
    "workers": [{"kind": "core", "most": 2}],
    "workload": {"rate_rps": 40, "requests": 3000},
    "objective": {"maximize": "quality", "latency_max_s": 1.0, "late_max": "5%"},
}


def test_a_spec_is_planned_brought_up_and_answers_though_a_worker_dies(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name, folder in family().items():
        (tmp_path / "models" / name).symlink_to(folder)
    models = [f"models/{name}" for name in NAMES]
    told(tmp_path, "engine", "measure", *models, "--passes", "5", "--out", "family.json")
    (tmp_path / "guard.yaml").write_text(yaml.safe_dump(SPEC))
    plan = told(tmp_path, "plan", "guard.yaml", "--out", "plan")["plan"]
    assert plan["policies"][0]["models"][-1] == "intent-6"
    url = told(tmp_path, "up", "plan", "--port", str(free_port()), "--detach")["url"]
    try:
        asyncio.run(_asked(url, tmp_path))
    finally:
        told(tmp_path, "down")


async def _asked(url: str, folder: Path) -> None:
    some = texts()[:200]
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:

        async def ask(text: str, model: str = "cascadia") -> httpx.Response:
            return await client.post(
                "/v1/classify", json={"model": model, "input": text, "deadline_ms": 20_000}
            )

        first = await asyncio.gather(*(ask(one.text) for one in some))
        assert {reply.status_code for reply in first} == {200}
        right = [r.json()["data"][0]["label"] == one.label for r, one in zip(first, some, strict=True)]
        stages = json.loads((folder / "plan" / "plan.json").read_text())["stages"]
        measured = {stage["name"]: stage["accuracy"] / 100 for stage in stages}
        # A burst is answered by whichever models its queue leaves time for: each is asked for what was measured of it.
        chances = [measured[reply.headers["x-cascadia-stage"]] for reply in first]
        chance = math.sqrt(sum(p * (1 - p) for p in chances))
        assert abs(sum(right) - sum(chances)) < 3 * chance, Counter(chances)
        for model in ("guard", "intent-1"):
            assert (await ask("Creates a bucket", model)).status_code == 200
        replicas = told(folder, "status")["replicas"]
        under_way = [asyncio.create_task(ask(one.text)) for one in some]
        await asyncio.sleep(0.05)
        os.kill(replicas[0]["pid"], signal.SIGKILL)
        assert {reply.status_code for reply in await asyncio.gather(*under_way)} == {200}
