"""`cascadia move` on real processes: another plan or another engine by hand, forward, back, and not at all."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cascadia.clients.processes.guard import descendants
from cascadia.files.plan_file import write_plan
from tests.e2e.test_up_commands import Place
from tests.e2e.test_up_commands import place as place  # a fixture
from tests.unit.controller.machine import two_stages
from tests.unit.controller.test_local_process import alive, until

OPTIONS = ("--engines", "local.yaml")


@pytest.fixture
def running(place: Place) -> Place:
    """1 + 1 replicas on three GPUs, and plans of 2 + 1 and 1 + 2 in folders."""
    for name, small, large in (("more", 2, 1), ("other", 1, 2)):
        (place.folder / name).mkdir()
        write_plan(two_stages(small, large), place.folder / name / "plan.json")
    place.up()
    return place


def pids(place: Place) -> dict[str, int]:
    return {r["name"]: r["pid"] for r in place.document("status")["replicas"] if r["state"] == "ready"}


def in_force(place: Place) -> Path:
    return Path(json.loads((place.folder / "cascadia-run" / "in-force.json").read_text())["plan"])


@contextmanager
def asked_all_the_while(place: Place) -> Iterator[list[int]]:
    """One client without pause; the statuses that it got."""
    statuses: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            statuses.append(place.ask("cascadia").status_code)

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield statuses
    finally:
        stop.set()
        client.join(timeout=60)


def test_what_both_plans_have_stays_and_no_request_fails(running: Place) -> None:
    before = pids(running)
    planned = running.document("move", "more", *OPTIONS, "--dry-run")["steps"]
    # The router's page shows what the plan in force predicts: each plan's router.yaml is another.
    assert planned == ["start small-1 (1 of here)", "await small-1", "route to small, large at 50"]
    assert pids(running) == before
    with asked_all_the_while(running) as statuses:
        assert running.document("move", "more", *OPTIONS)["steps"] == planned
        assert in_force(running) == running.folder / "more" / "plan.json"
        running.run("move", "other", *OPTIONS)
    assert set(statuses) == {200}
    after = pids(running)
    assert sorted(name.partition("-")[0] for name in after) == ["large", "large", "small"]
    assert before["large-0"] == after["large-0"]
    assert "nothing to do" in running.run("move", "other", *OPTIONS)
    kinds = [entry["kind"] for entry in running.document("history", "--decisions")["entries"]]
    assert kinds == ["given", "begun", "moved"] * 2


def test_another_engine_replaces_each_replica_in_turn(running: Place) -> None:
    before = pids(running)
    local = json.loads((running.folder / "local.yaml").read_text())
    for engine in local["stages"].values():
        engine["env"] = {"ENGINE_VERSION": "2"}
    (running.folder / "local.yaml").write_text(json.dumps(local))
    with asked_all_the_while(running) as statuses:
        running.run("move", "plan.json", *OPTIONS)
    assert set(statuses) == {200}
    assert len(pids(running)) == 2
    assert not set(pids(running).values()) & set(before.values())


def test_a_move_starts_engines_by_the_file_that_the_fleet_was_started_by(running: Place) -> None:
    """Without a word: `up`'s, until a move is given another; where that has gone, it says so and moves nothing."""
    running.run("move", "more")
    engine = "import sys, runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    told = json.loads((running.folder / "local.yaml").read_text())
    told["stages"]["small"]["command"][1:1] = ["-c", engine]
    (running.folder / "through.yaml").write_text(json.dumps(told))
    running.run("move", "more", "--engines", "through.yaml")
    before = pids(running)
    (running.folder / "local.yaml").unlink()
    running.run("move", "other")
    assert before["large-0"] == pids(running)["large-0"]
    (running.folder / "through.yaml").unlink()
    before = pids(running)
    assert "through.yaml: by which this fleet was started has gone" in running.run("move", "more", code=2)
    assert pids(running) == before


def test_an_engine_that_does_not_start_leads_back(running: Place) -> None:
    before = pids(running)
    local = json.loads((running.folder / "local.yaml").read_text())
    local["stages"]["large"]["command"] = ["no-such-engine"]
    (running.folder / "broken.yaml").write_text(json.dumps(local))
    said = running.run("move", "plan.json", "--engines", "broken.yaml", code=1)
    assert "rolled back: await large-1: large-1 did not start: cannot start no-such-engine" in said
    assert said.count("\n") == 1
    assert pids(running) == before
    assert in_force(running) == running.folder / "plan.json"


def test_a_fleet_that_comes_up_anew_has_the_plan_that_somebody_chose(running: Place) -> None:
    """Killed, or ended: what it moved to is neither forgotten nor taken up in silence."""
    running.run("down")
    pid = running.up()
    running.run("move", "more", *OPTIONS)
    under_way = {"to": str(running.folder / "other" / "plan.json")}
    (running.folder / "cascadia-run" / "move.json").write_text(json.dumps(under_way))
    tree = descendants(pid)
    os.kill(pid, signal.SIGKILL)
    asyncio.run(until(lambda: not any(alive(process) for process in [pid, *tree])))
    began = ("up", "plan.json", *OPTIONS, "--port", str(running.port), "--detach")
    said = running.run(*began, code=2)
    assert f"has moved to {running.folder / 'more' / 'plan.json'} since it came up with" in said
    assert said.count("\n") == 1
    running.run(*began, "--resume")
    assert in_force(running) == running.folder / "more" / "plan.json"
    assert len(pids(running)) == 3
    running.run("down")
    running.run(*began, "--replace")
    assert in_force(running) == running.folder / "plan.json"
    assert not (running.folder / "cascadia-run" / "move.json").exists()
