"""`cascadia controller` on a fleet of processes: from a workload log whose rate jumps to another plan in force."""

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cascadia.clients.processes.ports import free_port
from cascadia.files.plan_file import read_plan
from cascadia.report.words import limits
from cascadia.router.observers.samples_rows import REQUESTS, batch_of, schema_of
from tests.e2e.commands import PROGRAM, told
from tests.unit.controller.machine import ENGINE
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec
from tests.unit.router.telemetry.test_metrics import Figures

LIMIT_S = 400.0
run = partial(told, limit_s=LIMIT_S)


def write_log(folder: Path) -> None:
    """Three hours at one request in two seconds, then eight a second, until long after now: a busy machine is slow to
    come and look, and a log that had ended would be a rate that fell. What is yet to come is not known until then."""
    now_s = time.time()
    rng = np.random.default_rng(1)
    quiet = rng.uniform(now_s - 11_700, now_s - 900, 5400)
    busy = rng.uniform(now_s - 900, now_s + 2700, 28_800)
    rows = []
    for arrival_s in np.sort(np.concatenate([quiet, busy])).tolist():
        row: dict[str, Any] = dict.fromkeys(schema_of(REQUESTS, text=False).names)
        step = {"stage": "small", "score": float(rng.normal(60, 10)), "outcome": "accepted"}
        lengths = {"input_tokens": int(rng.integers(200, 800)), "output_tokens": int(rng.integers(50, 400))}
        rows.append(row | lengths | {"arrival_s": arrival_s, "steps": [step]})
    folder.mkdir()
    batch = batch_of(rows, schema_of(REQUESTS, text=False))
    parquet.write_table(pa.Table.from_batches([batch]), folder / f"{REQUESTS}-1.parquet")


@contextmanager
def fleet(tmp_path: Path, latency_max_s: float) -> Iterator[Path]:
    """One that runs a plan for half a request a second on one node of eight GPUs."""
    spec = valid_spec()
    spec["stages"] = spec["stages"][:2]
    spec["cluster"]["pools"][0]["nodes"] = 1
    spec["workload"]["rate_rps"] = 0.5
    spec["objective"] = {"minimize": "cost", "quality_min": 55, "latency_max_s": latency_max_s}
    write_inputs(tmp_path)
    write_spec(tmp_path, spec)
    run(tmp_path, "plan", "cascade.yaml", "--out", "plan", "--no-report")
    engine = {"command": ["{python}", str(ENGINE), "{port}"], "drain_s": 10}
    named = [*(stage["name"] for stage in spec["stages"]), "judge"]
    local = {"stages": dict.fromkeys(named, engine), "router": {"port": free_port()}}
    (tmp_path / "local.yaml").write_text(json.dumps(local))
    run(tmp_path, "up", "plan", "--engines", "local.yaml", "--detach")
    yield tmp_path
    run(tmp_path, "down")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with fleet(tmp_path, 20.0) as running:
        yield running


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """So near to its bound that each replica does what it was planned for, and no more."""
    with fleet(tmp_path, 3.0) as running:
        yield running


def time_line(entries: list[dict[str, Any]], began_s: float) -> str:
    """Where the time from the controller's start to the end of its move went, seconds."""
    steps = [entry["at_s"] for entry in entries if entry["kind"] == "step"]
    ends = {entry["kind"]: entry["at_s"] for entry in reversed(entries)} | {
        "first step": steps[0],
        "last step": steps[-1],
    }
    order = ("alarm", "decision", "begun", "first step", "last step", "moved")
    spans = zip(("start", *order), order, (began_s, *(ends[name] for name in order)), strict=False)
    return ", ".join(f"{a} to {b} {ends[b] - at_s:.1f}" for a, b, at_s in spans)


def scraped(log: Path) -> Figures:
    """What the controller says at the address that its log names."""
    (url,) = re.findall(r"figures at (\S+)", log.read_text())
    return Figures(httpx.get(url, trust_env=False).text)


def test_a_jump_of_the_rate_ends_in_a_larger_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_plan(folder / "plan")
    samples = folder / "log"
    write_log(samples)
    began_s = time.time()
    # The inner loop would follow the rate by itself.
    (folder / "controller.yaml").write_text("scaling: {scales: false}\n")
    arguments = ["--engines", "local.yaml", "--samples", str(samples), "--lag", "1", "--startup", "5"]
    arguments += ["--settings", "controller.yaml"]
    with (folder / "controller.log").open("wb") as log:
        controller = subprocess.Popen(
            [PROGRAM, "controller", "cascade.yaml", "plan", *arguments],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "CASCADIA_CACHE_DIR": str(folder / "cache")},
        )
    history = folder / "cascadia-run" / "history.jsonl"
    until_s = time.monotonic() + LIMIT_S
    kinds: list[str] = []
    while not {"moved", "rolled-back", "failed"} & set(kinds) and time.monotonic() < until_s:
        assert controller.poll() is None, (folder / "controller.log").read_text()
        kinds = [entry["kind"] for entry in run(folder, "history")["entries"]] if history.exists() else []
        time.sleep(0.5)
    figures = scraped(folder / "controller.log")
    controller.terminate()
    controller.wait(30)
    assert figures("controller_leads") == figures("controller_moves_total", result="moved") == 1.0
    assert figures("controller_forecast_keeps_bounds", plan="candidate") == 1.0
    entries = run(folder, "history")["entries"]
    alarm = next(entry for entry in entries if entry["kind"] == "alarm")
    decision = next(entry for entry in entries if entry["kind"] == "decision")
    with capsys.disabled():
        print(f"\n{time_line(entries, began_s)}, {sum(e['kind'] == 'step' for e in entries)} steps", end="")
    assert "rate changed" in alarm["what"]
    assert decision["what"].startswith("move: ")
    assert kinds[-1] == "moved"
    after = read_plan(json.loads((folder / "cascadia-run" / "in-force.json").read_text())["plan"])
    assert after.gpus > before.gpus
    running = run(folder, "status")
    assert sum(len(replica["gpus"]) for replica in running["replicas"]) == after.gpus
    gated = [stage.name for stage in after.stages if stage.deployed][:-1]
    # Where gears or a mixture have several of a stage, the lowest.
    lowest = [limits(after, stage)[0] for stage in gated]
    assert running["routing"]["thresholds"] == lowest


def test_the_inner_loop_adds_replicas_for_the_load_of_the_router(busy: Path) -> None:
    """Ten requests a second come where half of one was planned for: within a minute there are more replicas, which
    answer, and no request fails."""
    before = run(busy, "status")
    with (busy / "controller.log").open("wb") as log:
        controller = subprocess.Popen(
            [PROGRAM, "controller", "cascade.yaml", "plan", "--engines", "local.yaml", "--window", "5"],
            cwd=busy,
            stdout=log,
            stderr=log,
        )
    try:
        answers = asyncio.run(ask_for(before["router"]["url"], 60.0))
        assert controller.poll() is None, (busy / "controller.log").read_text()
        figures = scraped(busy / "controller.log")
    finally:
        controller.terminate()
        controller.wait(30)
    after = run(busy, "status")
    assert {status for status, _ in answers} == {200}
    assert 3.0 < figures("controller_scale_rate_rps") < 15.0
    old, new = ({r["name"] for r in each["replicas"]} for each in (before, after))
    assert old < new
    assert sum(len(replica["gpus"]) for replica in after["replicas"]) <= 8
    # An engine answers with its port.
    late, early = ({text for _, text in part} for part in (answers[-100:], answers[:100]))
    assert late - early
    assert "scaled" in {entry["kind"] for entry in run(busy, "history")["entries"]}


async def ask_for(url: str, seconds: float) -> list[tuple[int, str]]:
    """Statuses and answers of ten requests a second."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60.0) as client:
        (cascade, *_) = (await client.get("/v1/models")).json()["data"]
        body["model"] = cascade["id"]

        async def one(after_s: float) -> tuple[int, str]:
            await asyncio.sleep(after_s)
            answer = await client.post("/v1/chat/completions", json=body)
            text = answer.json()["choices"][0]["message"]["content"] if answer.status_code == 200 else ""
            return answer.status_code, text

        return await asyncio.gather(*(one(i / 10.0) for i in range(round(10 * seconds))))
