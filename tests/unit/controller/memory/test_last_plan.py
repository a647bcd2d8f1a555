"""`cascadia up` on a run-dir whose fleet served another plan last: never a word too few."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from cascadia.cli.fleet.up_plan import chosen
from cascadia.cli.shared.output import Output
from cascadia.clients.processes.systemd import notify
from cascadia.controller.local.supervisor import LOCK, only_one
from cascadia.controller.memory.state import (
    IN_FORCE,
    FileState,
    Source,
    UnderWay,
    begin,
    check_in_force,
    last_of,
    write_in_force,
)
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import write_plan
from tests.unit.cli.commands import run
from tests.unit.controller.machine import two_stages


class Place:
    """A run-dir, plans `a`, `b` and `c`, and what `up` says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        for name, small, large in (("a", 1, 1), ("b", 2, 1), ("c", 1, 2)):
            (folder / name).mkdir()
            write_plan(two_stages(small, large), self.plan(name))

    def plan(self, name: str) -> Path:
        return self.folder / name / "plan.json"

    def up(self, name: str, capsys: pytest.CaptureFixture[str], **flags: bool) -> tuple[str, str]:
        """The plan that it begins with, and what it says."""
        given = {"replace": False, "resume": False} | flags
        found = chosen(self.run_dir, self.plan(name), **given, output=Output())
        begin(self.run_dir, Source(found, self.plan(name)))
        return found.parent.name, capsys.readouterr().err

    def moved(self, name: str) -> None:
        FileState(self.run_dir).put_in_force(self.plan(name))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


Capture = pytest.CaptureFixture[str]


def test_the_first_plan_and_the_same_again_are_nothing_to_tell(place: Place, capsys: Capture) -> None:
    assert place.up("a", capsys) == ("a", "")
    assert place.up("a", capsys) == ("a", "")
    place.moved("b")
    assert place.up("b", capsys) == ("b", "")


def test_a_fleet_that_has_moved_is_not_set_back_without_a_word(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    place.moved("b")
    with pytest.raises(BadInput) as told:
        place.up("a", capsys)
    said = str(told.value)
    assert f"this fleet has moved to {place.plan('b')} since it came up with {place.plan('a')}" in said
    assert "`--resume` goes on with that, `--replace` begins with" in said
    assert "\n" not in said


def test_resume_goes_on_with_the_last_plan_and_says_so_each_time(place: Place, capsys: Capture) -> None:
    assert place.up("a", capsys, resume=True) == ("a", "")
    place.moved("b")
    for _ in range(2):  # it came up with b, but for a
        plan, said = place.up("a", capsys, resume=True)
        assert plan == "b"
        assert f"going on with {place.plan('b')}, which was in force last" in said
    with pytest.raises(BadInput):
        place.up("a", capsys)


def test_replace_begins_with_what_is_given_and_says_what_was(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    place.moved("b")
    plan, said = place.up("a", capsys, replace=True)
    assert plan == "a"
    assert f"{place.plan('b')} was in force here last; beginning with {place.plan('a')}" in said
    assert place.up("a", capsys) == ("a", "")


def test_another_plan_than_it_came_up_with_is_begun_with_and_said(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    plan, said = place.up("b", capsys)
    assert plan == "b"
    assert "was in force here last" in said
    place.moved("c")
    with pytest.raises(BadInput):
        place.up("a", capsys)
    plan, said = place.up("a", capsys, resume=True)
    assert plan == "a", "somebody wants another plan than the fleet came up with"
    assert "was in force here last" in said


def test_a_plan_written_anew_under_the_same_name_is_another(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    place.moved("b")
    shutil.copy(place.plan("c"), place.plan("a"))
    assert place.up("a", capsys, resume=True)[0] == "a"


def test_a_last_plan_that_has_gone_is_said(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    place.moved("b")
    place.plan("b").unlink()
    plan, said = place.up("a", capsys, resume=True)
    assert plan == "a"
    assert "was in force here last and has gone" in said


def test_a_move_that_was_under_way_is_said(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    FileState(place.run_dir).put_under_way(UnderWay(place.plan("b"), place.plan("a"), {}, {}))
    _, said = place.up("a", capsys)
    assert f"a move to {place.plan('b')} was under way when the fleet ended" in said
    assert place.up("a", capsys) == ("a", "")


def test_what_an_older_version_left_behind_is_read(place: Place, capsys: Capture) -> None:
    (place.run_dir / "in-force.json").write_text(json.dumps({"plan": str(place.plan("b"))}))
    last = last_of(place.run_dir)
    assert last is not None
    assert not last.moved
    assert "was in force here last" in place.up("a", capsys)[1]
    write_in_force(place.run_dir, place.plan("b"))
    assert last_of(place.run_dir) is not None


def test_a_controller_goes_by_no_plan_that_nobody_moved_to(place: Place, capsys: Capture) -> None:
    """One written anew in the place of that in force is neither what runs nor what was asked for."""
    place.up("a", capsys)
    check_in_force(place.run_dir)
    place.moved("b")
    write_plan(two_stages(2, 2, gpus=4), place.plan("a"))
    check_in_force(place.run_dir)
    write_plan(two_stages(2, 2, gpus=4), place.plan("b"))
    with pytest.raises(BadInput, match=r"b/plan.json: has changed .*; move to it first: `cascadia move"):
        check_in_force(place.run_dir)
    place.moved("b")
    check_in_force(place.run_dir)
    place.plan("b").unlink()
    check_in_force(place.run_dir)
    (place.run_dir / IN_FORCE).write_text(json.dumps({"plan": str(place.plan("c"))}))
    check_in_force(place.run_dir)


def test_the_command_refuses_and_a_fleet_that_runs_comes_first(place: Place, capsys: Capture) -> None:
    place.up("a", capsys)
    place.moved("b")
    arguments = ["up", str(place.folder / "a"), "--run-dir", str(place.run_dir)]
    done = run(*arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "this fleet has moved to" in done.stderr
    with only_one(place.run_dir / LOCK, "", ""):
        assert "a fleet runs here already" in run(*arguments).stderr
    both = run(*arguments, "--replace", "--resume")
    assert both.exit_code == 2
    assert "contradict each other" in both.stderr


def test_systemd_is_told_where_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert heard.recv(100) == b"READY=1"
