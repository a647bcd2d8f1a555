"""`cascadia controller` on real workers of one-pass models: a rate that jumps ends in more, and no request fails."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cascadia.clients.processes.ports import free_port
from cascadia.files.plan_file import read_plan
from cascadia.router.observers.samples_rows import REQUESTS, batch_of, schema_of
from tests.e2e.commands import PROGRAM, told
from tests.unit.planner.policies.one_pass_plans import SPEC, family, written

LIMIT_S = 600.0
"""What takes longer has failed: no claim about time."""
SLOWER = 60
"""So many times as slow as in the family the models are told to be, so that some requests a second fill a worker."""


def write_log(folder: Path) -> None:
    """An hour at one request a second, then six, until long after now: a busy machine is slow to come and look, and a
    log that had ended would be a rate that fell. What is yet to come is not known until then."""
    now_s, rng = time.time(), np.random.default_rng(1)
    came_s = [rng.uniform(now_s - 4500, now_s - 900, 3600), rng.uniform(now_s - 900, now_s + 2700, 21_600)]
    rows = []
    for arrival_s in np.sort(np.concatenate(came_s)).tolist():
        row: dict[str, Any] = dict.fromkeys(schema_of(REQUESTS, text=False).names)
        told_of = {"arrival_s": arrival_s, "input_tokens": 5, "output_tokens": 1, "status": 200, "e2e_s": 0.5}
        rows.append(row | told_of | {"steps": []})
    folder.mkdir()
    batch = batch_of(rows, schema_of(REQUESTS, text=False))
    parquet.write_table(pa.Table.from_batches([batch]), folder / f"{REQUESTS}-1.parquet")


def write_spec(folder: Path) -> None:
    slow = json.loads(family())
    for model in slow["models"]:
        model["p95_s"] = [SLOWER * took_s for took_s in model["p95_s"]]
        model["drawn_s"] = [[SLOWER * took_s for took_s in drawn] for drawn in model["drawn_s"]]
    spec = SPEC.replace("rate_rps: 300", "rate_rps: 1").replace("latency_max_s: 0.1", "latency_max_s: 6")
    written(folder, spec)
    (folder / "family.json").write_text(json.dumps(slow))


def test_a_jump_of_the_rate_ends_in_more_workers_with_policies_of_their_own(tmp_path: Path) -> None:
    write_spec(tmp_path)
    told(tmp_path, "plan", "guard.yaml", "--out", "plan", "--no-report")
    write_log(tmp_path / "log")
    url = told(tmp_path, "up", "plan", "--port", str(free_port()), "--detach")["url"]
    statuses: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                asked = {"model": "cascadia", "input": ["w1 w2", "w3"], "deadline_ms": 20_000}
                statuses.append(client.post("/v1/classify", json=asked).status_code)

    client = threading.Thread(target=ask)
    with (tmp_path / "controller.log").open("wb") as log:
        arguments = ["--samples", "log", "--lag", "1", "--startup", "5", "--port", "0"]
        controller = subprocess.Popen(
            [PROGRAM, "controller", "guard.yaml", "plan", *arguments], cwd=tmp_path, stdout=log, stderr=log
        )
    client.start()
    try:
        entries = _until_moved(tmp_path, controller)
    finally:
        stop.set()
        client.join(60)
        controller.terminate()
        controller.wait(60)
        running = told(tmp_path, "status")
        told(tmp_path, "down")
    assert entries[-1]["kind"] == "moved", entries
    assert any("rate changed" in entry["what"] for entry in entries if entry["kind"] == "alarm")
    before = read_plan(tmp_path / "plan")
    after = read_plan(json.loads((tmp_path / "cascadia-run" / "in-force.json").read_text())["plan"])
    assert (before.gpus, after.gpus, after.policies[0].workers) == (1, 2, 2)
    assert len(running["replicas"]) == 2
    assert set(statuses) == {200}


def _until_moved(folder: Path, controller: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    until_s, history = time.monotonic() + LIMIT_S, folder / "cascadia-run" / "history.jsonl"
    entries: list[dict[str, Any]] = []
    while time.monotonic() < until_s:
        assert controller.poll() is None, (folder / "controller.log").read_text()
        entries = told(folder, "history")["entries"] if history.exists() else []
        if {"moved", "rolled-back", "failed"} & {entry["kind"] for entry in entries}:
            break
        time.sleep(0.5)
    return entries
