"""From ramps to answers that left behind a layer: measure, plan, up, ask, down, with a model of a few kilobytes."""

import json
from pathlib import Path

import httpx
import yaml

from cascadia.clients.processes.ports import free_port
from cascadia.onepass.runner import Runner
from tests.e2e.commands import told
from tests.unit.onepass.test_exits import trained

SPEC = {
    "stages": [
        {"name": "guard", "model": "models/little", "task": "classify", "group": "g", "exits": [{"layer": 1}]}
    ],
    "latency": "family.json",
    "workers": [{"kind": "core", "most": 1}],
    "workload": {"rate_rps": 40, "requests": 1000},
    "objective": {"minimize": "cost", "quality_min": 20, "latency_max_s": 1.0, "late_max": "5%"},
}


def test_a_policy_ends_passes_behind_a_layer_and_says_so(tmp_path: Path) -> None:
    folder = trained(tmp_path / "models")
    texts = [f"w{n % 20} w{n % 7} w{n % 3}" for n in range(200)]
    runner = Runner.read(folder)
    labels = [runner.model.labels[at] for at in runner.forward(runner.ids(texts)).values.argmax(axis=1)]
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    measure = ("engine", "measure", "models/little", "--exits", "--texts", "texts.jsonl", "--passes", "5")
    measured = told(tmp_path, *measure, "--out", "family.json")["models"]
    assert [each["accuracy"] for each in measured if each["name"] == "little"] == [100.0]
    assert "little@layer-1" in [each["name"] for each in measured]
    # As if the whole model were too slow for the load.
    sizes = len(measured[0]["p95_s"])
    measured[0] |= {"p95_s": [0.3 * (n + 1) for n in range(sizes)], "drawn_s": []}
    for each in measured[1:]:
        each["drawn_s"] = []
    (tmp_path / "family.json").write_text(json.dumps({"models": measured}))
    (tmp_path / "guard.yaml").write_text(yaml.safe_dump(SPEC))
    plan = told(tmp_path, "plan", "guard.yaml", "--out", "plan")["plan"]
    exits = {stage["name"]: stage["at"] for stage in plan["stages"] if stage["at"]}
    assert exits
    url = told(tmp_path, "up", "plan", "--port", str(free_port()), "--detach")["url"]
    try:
        ask = {"model": "cascadia", "input": texts[:20]}
        reply = httpx.post(f"{url}/v1/classify", json=ask, timeout=60, trust_env=False)
        metrics = httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text
    finally:
        told(tmp_path, "down")
    assert reply.headers["x-cascadia-stage"] in exits
    left = [part["exit"] for part in reply.json()["data"]]
    assert set(left) <= {0, 1}
    assert sum(left) > 0
    counted = f'cascadia_stage_exits_total{{at="1",stage="{reply.headers["x-cascadia-stage"]}"}}'
    assert f"{counted} {float(sum(left))}" in metrics
