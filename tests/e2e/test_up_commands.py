"""The commands of a fleet, as a person uses them, on real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.ports import free_port, reserve
from cascadia.files.plan_file import write_plan
from tests.unit.controller.machine import ENGINE, two_stages
from tests.unit.controller.test_local_process import alive, until

PROGRAM = str(Path(sys.executable).with_name("cascadia"))


@dataclass
class Place:
    """A folder with a plan of 1 + 1 replicas for three GPUs, and the commands in it."""

    folder: Path
    port: int

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def document(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*arguments, "--json"))
        return found

    def up(self) -> int:
        options = ("--engines", "local.yaml", "--port", str(self.port), "--detach")
        return int(self.document("up", "plan.json", *options)["pid"])

    def ask(self, model: str) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        return httpx.post(url, json=body, timeout=30, trust_env=False)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    engines = {
        name: {"command": ["{python}", str(ENGINE), "{port}", "--children"], "drain_s": 5}
        for name in ("small", "large")
    }
    (tmp_path / "local.yaml").write_text(json.dumps({"stages": engines}))
    (tmp_path / "cascadia").mkdir()  # as where a clone lies
    found = Place(tmp_path, free_port())
    yield found
    subprocess.run([PROGRAM, "down"], cwd=tmp_path, capture_output=True, timeout=120)


def test_up_status_scale_drain_logs_and_down(place: Place) -> None:
    pid = place.up()
    assert place.ask("cascadia").status_code == 200
    told = place.document("status")
    assert [(r["name"], r["state"], r["gpus"]) for r in told["replicas"]] == [
        ("large-0", "ready", [0]),
        ("small-0", "ready", [1]),
    ]
    assert "small-0" in place.run("status")
    told = place.run("scale", "small", "9", code=2)
    assert told == "error: REPLICAS: the GPUs of here hold 2 of small, not 9; write at most 2\n"
    planned = place.document("scale", "small", "2", "--dry-run")["steps"]
    assert planned == ["start small-1 (1 of here)", "await small-1"]
    assert len(place.document("status")["replicas"]) == 2
    assert place.document("scale", "small", "2")["steps"] == planned
    place.run("drain", "small-0")
    states = {r["name"]: r["state"] for r in place.document("status")["replicas"]}
    assert states == {"small-0": "draining", "small-1": "ready", "large-0": "ready"}
    urls = {r["name"]: r["url"] for r in place.document("status")["replicas"]}
    answer = place.ask("small").json()["choices"][0]["message"]["content"]
    assert urls["small-1"].endswith(f":{answer}")
    assert "last replica of small" in place.run("drain", "small-1", code=1)
    assert "there are" in place.run("drain", "nobody", code=2)
    assert "leave one of them out" in place.run("drain", "small-0", "--undo", "--stop", code=2)
    place.run("drain", "small-0", "--undo")
    place.run("drain", "small-0", "--stop")
    assert place.document("scale", "small", "1")["steps"] == []
    assert '"pid"' in place.run("logs", "small-1")
    assert "there are" in place.run("logs", "nobody", code=2)
    tree = descendants(pid)
    place.run("down")
    assert not any(alive(process) for process in [pid, *tree])
    assert "no fleet runs here" in place.run("status", code=2)


def test_after_kill_9_of_up_nothing_of_it_is_left_and_it_can_begin_again(place: Place) -> None:
    import asyncio

    pid = place.up()
    tree = descendants(pid)
    assert len(tree) == 10, "a router and two engines with their guards, each engine with two children"
    os.kill(pid, signal.SIGKILL)
    asyncio.run(until(lambda: not any(alive(process) for process in tree)))
    place.up()
    assert place.ask("large").status_code == 200


def test_two_fleets_in_one_folder_are_one_too_many(place: Place) -> None:
    place.up()
    second = place.run("up", "plan.json", "--engines", "local.yaml", code=2)
    assert "a fleet runs here already; end it with `cascadia down`" in second


def test_while_engines_load_the_routers_port_is_nobody_elses(place: Place) -> None:
    """Two fleets would both say that they serve there, and one of them would not."""
    never = {"command": ["{python}", "-c", "import signal; signal.pause()"]}
    (place.folder / "local.yaml").write_text(json.dumps({"stages": {"small": never, "large": never}}))
    options = ["up", "plan.json", "--engines", "local.yaml", "--port", str(place.port)]
    with subprocess.Popen([PROGRAM, *options], cwd=place.folder, stderr=subprocess.PIPE, text=True) as first:
        try:
            assert first.stderr is not None
            assert first.stderr.readline() == "start large-0 (1 of here)\n"
            engines = reserve(place.port)
            engines.release()
            assert engines.number > place.port
            second = place.run(*options, "--run-dir", "another", code=2)
            assert f"port {place.port}: another program listens there; name another with --port" in second
        finally:
            first.terminate()


def test_a_plan_that_does_not_come_up_says_why_and_leaves_nothing(place: Place) -> None:
    def up_with(program: str, code: int) -> str:
        stages = {name: {"command": [program]} for name in ("small", "large")}
        (place.folder / "local.yaml").write_text(json.dumps({"stages": stages}))
        return place.run("up", "plan.json", "--engines", "local.yaml", "--port", str(place.port), code=code)

    said = up_with("no-such-engine", code=2)
    assert (
        "there is no program no-such-engine on the path; install it, or say in local.yaml (--engines)" in said
    )
    broken = place.folder / "broken-engine"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert f"did not start: cannot start {broken}" in up_with(str(broken), code=1)
    assert f"cannot start {broken}" in place.run("logs", "small-0")
