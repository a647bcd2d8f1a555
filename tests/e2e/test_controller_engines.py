"""A whole adaptation on this machine: the demo's engines and judge under a steady load, whose rate then grows beyond
what the plan carries.

Nothing is scripted after the change: the controller, a process of its own, notices it in the router's log, plans anew
from these requests, and moves real engines. Where its time went is printed.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.calibrate import calibrate, kept_speeds
from cascadia.demo.example import write_example
from cascadia.demo.measuring.asking import Answer
from cascadia.demo.measuring.replay import arrivals_s, replay
from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import STAGES, free_cores
from cascadia.files.plan_file import read_plan
from tests.e2e.commands import PROGRAM, told
from tests.e2e.engine_packages import engines_dir

LIMIT_S = 300.0
CALM_RPS, BEYOND = 1.2, 1.5
"""The rate that is planned for, and then so many times what the plan carries on engines as fast as these are."""
CALM_S, BUSY_S, AFTER_S = 120.0, 60.0, 10.0
SAMPLES_S, WINDOW_S = 1.0, 1.0
run = partial(told, limit_s=LIMIT_S)
ENDS = {"moved", "rolled-back", "failed"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The demo's two models, planned for the calm rate and up. Models and calibrations are kept beside the engines."""
    monkeypatch.setenv("CASCADIA_CACHE_DIR", str(engines_dir() / "demo"))
    weights = {stage.catalogue_name: fetch(model_named(stage.catalogue_name)) for stage in STAGES}
    by_stage = {stage.name: weights[stage.catalogue_name] for stage in STAGES}
    speeds = kept_speeds() or calibrate(by_stage, free_cores(), tmp_path / "logs")
    path = write_example(tmp_path, speeds.paths, weights, CALM_RPS)
    spec = yaml.safe_load(path.read_text())
    spec["objective"] = {"maximize": "quality", "latency_max_s": 2}
    path.write_text(json.dumps(spec))
    run(tmp_path, "plan", path.name, "--out", "plan", "--no-report")
    samples = {"folder": "samples", "seconds": SAMPLES_S}
    router = {"port": free_port(), "samples": samples, "limits": {"queue_s": 120}}
    (tmp_path / "local.yaml").write_text(json.dumps({"router": router}))
    run(tmp_path, "up", "plan", "--engines", "local.yaml", "--detach")
    yield tmp_path
    run(tmp_path, "down")


@contextmanager
def controller(folder: Path) -> Iterator[None]:
    """A process of its own, which must live as long as the test looks."""
    settings = {
        "--window": WINDOW_S,
        "--arrivals": 0,
        "--arrivals-lag": 2 * SAMPLES_S,
        "--lag": 10,
        "--requests": 80,
        "--startup": 5,
        "--settings": "controller.yaml",
    }
    # The inner loop would follow the rate by itself.
    (folder / "controller.yaml").write_text("scaling: {scales: false}\n")
    words = [str(word) for setting in settings.items() for word in setting]
    with (folder / "controller.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "controller", "cascade.yaml", "plan", "--engines", "local.yaml", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        yield
        assert process.poll() is None, (folder / "controller.log").read_text()
    finally:
        process.terminate()
        process.wait(30)


def ask(url: str, at_s: list[float]) -> list[Answer]:
    """Questions that differ, at these times; raises where one fails."""
    return asyncio.run(replay(url, "cascadia", training_questions(len(at_s)), at_s))


def shown(folder: Path, *arguments: str) -> str:
    """What people see."""
    done = subprocess.run(
        [PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=600
    )
    return done.stdout


def until_moved(folder: Path) -> None:
    until_s = time.monotonic() + LIMIT_S
    history = folder / "cascadia-run" / "history.jsonl"
    while not history.exists() or not ENDS & {e["kind"] for e in run(folder, "history")["entries"]}:
        assert time.monotonic() < until_s, (folder / "controller.log").read_text()
        time.sleep(0.5)


def p95_s(answers: list[Answer]) -> float:
    return float(np.quantile([answer.seconds for answer in answers], 0.95))


def test_traffic_beyond_the_plan_is_noticed_planned_for_and_moved_to_and_no_request_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_plan(folder / "plan")
    assert before.headroom is not None
    busy_rps = BEYOND * before.headroom * CALM_RPS
    calm = arrivals_s(round(CALM_RPS * CALM_S), CALM_RPS)
    at_s = calm + [calm[-1] + later_s for later_s in arrivals_s(round(busy_rps * BUSY_S), busy_rps)]
    after_s = arrivals_s(round(busy_rps * AFTER_S), busy_rps)
    url = run(folder, "status")["router"]["url"]
    with controller(folder):
        answers = ask(url, at_s)
        until_moved(folder)
        after = ask(url, after_s)
    entries = run(folder, "history")["entries"]
    assert "rate changed" in next(entry["what"] for entry in entries if entry["kind"] == "alarm")
    end = next(entry for entry in entries if entry["kind"] in ENDS)
    assert end["kind"] == "moved", entries
    now = read_plan(json.loads((folder / "cascadia-run" / "in-force.json").read_text())["plan"])
    counts = [
        [sum(group.count for group in stage.replicas) for stage in plan.stages] for plan in (before, now)
    ]
    assert (counts[0], before.thresholds) != (counts[1], now.thresholds)
    replicas = run(folder, "status")["replicas"]
    names = [stage.name for stage in now.stages]
    assert [sum(r["kind"]["stage"] == name for r in replicas) for name in names] == counts[1]
    assert {r["state"] for r in replicas} == {"ready"}
    p95s = [p95_s(answers[: len(calm)]), p95_s(answers[len(calm) :]), p95_s(after)]
    with capsys.disabled():
        print(f"\n{shown(folder, 'history')}{shown(folder, 'history', '--timing')}")
        told = ", ".join(f"{p95:.2f} s" for p95 in p95s)
        print(
            f"{len(answers) + len(after)} requests, 0 failed; p95 before, in the minute of the change, after: {told}"
        )
    assert p95s[2] < p95s[1], "the new plan is the better one"
