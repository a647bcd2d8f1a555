"""What the commands of a fleet refuse, and how the history is shown; tests/e2e/test_up_commands.py runs real fleets."""

import json
from pathlib import Path
from typing import Any

import pytest

from cascadia.cli.fleet.status import ANY_WIDTH, _table
from cascadia.cli.shared.output import Output
from cascadia.clients.processes.ports import listen
from cascadia.controller.memory.history import Entry, History
from cascadia.files.plan_file import write_plan
from tests.unit.cli.commands import run
from tests.unit.controller.machine import two_stages


@pytest.mark.parametrize(
    ("local", "said"),
    [
        ({"stages": {"medium": {"command": ["x"]}}}, "stages.medium: the plan has no such stage"),
        ({"stages": {"small": {"comand": ["x"]}}}, "comand"),
        ({"router": {"prt": 8000}}, "router.yaml: prt: unknown key; did you mean 'port'?"),
        ({"router": {"port": "web"}}, "router.port: is 'web'; write a number from 1 to 65535"),
        ({"router": {"stages": []}}, "router.stages: comes from the plan"),
    ],
)
def test_a_local_yaml_that_makes_no_sense_is_one_line(
    tmp_path: Path, local: dict[str, Any], said: str
) -> None:
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    (tmp_path / "local.yaml").write_text(json.dumps(local))
    done = run(
        "up", str(tmp_path), "--engines", str(tmp_path / "local.yaml"), "--run-dir", str(tmp_path / "run")
    )
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_in_a_pipe_a_replica_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """However long its last failure is."""
    kind = {"stage": "small", "pool": "h100", "gpus": 1, "spec": "", "pods": 1}
    failed = "cannot start " + "/a/long/path" * 20 + ": no such file"
    replica = {"name": "small-0", "kind": kind, "state": "failed", "running": 0, "gpus": [0]}
    replica |= {"url": "http://127.0.0.1:8100", "starts": 6, "why": failed, "again_in_s": None}
    Output().show(_table({"replicas": [replica]}), ANY_WIDTH)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "small-0" in line]
    assert failed in line
    assert "http://127.0.0.1:8100" in line


@pytest.mark.parametrize(
    "command", ["status", "down", "drain small-0", "scale small 2", "scale small 2 --dry-run", "move PLAN"]
)
def test_where_no_fleet_runs_each_command_says_how_to_start_one(tmp_path: Path, command: str) -> None:
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    words = command.replace("PLAN", str(tmp_path)).split()
    done = run(*words, "--run-dir", str(tmp_path / "run"))
    assert done.exit_code == 2
    assert "no fleet runs here; start one with `cascadia up`" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("detached", [[], ["--detach"]])
def test_a_port_that_another_listens_at_is_refused_before_anything_is_started(
    tmp_path: Path, detached: list[str]
) -> None:
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    with listen("127.0.0.1", 0) as other:
        port = str(other.getsockname()[1])
        done = run("up", str(tmp_path), "--run-dir", str(tmp_path / "run"), "--port", port, *detached)
    assert done.exit_code == 2
    assert f"port {port}: another program listens there; name another with --port" in done.stderr


def test_a_run_dir_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    done = run("up", str(tmp_path), "--run-dir", str(tmp_path / "plan.json" / "run"))
    assert done.exit_code == 2
    assert "cannot be written to (Not a directory); name another with --run-dir" in done.stderr


def test_a_log_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "small-0.log").write_text("one\ntwo\n")
    assert run("logs", "small-0", "--lines", "1", "--run-dir", str(tmp_path)).stdout == "two\n"
    for name in ("nobody", "../secret"):
        done = run("logs", name, "--run-dir", str(tmp_path))
        assert done.exit_code == 2
        assert "has no log here; there are small-0" in done.stderr


def test_the_history_tells_where_the_time_of_each_move_went(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(Entry(60.0, "alarm", "rate changed", {"since_s": 0.0}))
    history.add(Entry(70.0, "decision", "move: better", {"planning_s": 8.0}))
    history.add(Entry(70.0, "begun", "to new"))
    history.add(Entry(100.0, "step", "await small-1", {"took_s": 30.0, "stage": "small"}))
    history.add(Entry(100.0, "moved", "new is in force"))
    first, *parts = run("history", "--timing", "--run-dir", str(tmp_path)).stdout.splitlines()
    assert first == "1970-01-01 00:01:10  moved, 100 s in all: rate changed"
    assert [part.rsplit(maxsplit=1)[1] for part in parts] == ["60.0", "2.0", "8.0", "30.0", "0.0", "0.0"]
    (move,) = json.loads(run("history", "--timing", "--json", "--run-dir", str(tmp_path)).stdout)["moves"]
    assert move["loading_s"] == {"small": 30.0}


def test_the_history_is_shown_a_line_an_entry(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(Entry(0.0, "decision", "keep: today's plan is the best found"))
    history.add(Entry(1.0, "step", "drain small-0", {"took_s": 1.0}))
    assert run("history", "--run-dir", str(tmp_path)).stdout.splitlines() == [
        "1970-01-01 00:00:00  decision    keep: today's plan is the best found",
        "1970-01-01 00:00:01  step        drain small-0",
    ]
    told = json.loads(run("history", "--decisions", "--json", "--run-dir", str(tmp_path)).stdout)
    assert [entry["kind"] for entry in told["entries"]] == ["decision"]
