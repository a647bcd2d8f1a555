"""The units of deploy/systemd: systemd takes them, they start what there is, and wait as long as a drain lasts."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cascadia.cli.main import main
from cascadia.controller.local.fleet import LocalFleet
from cascadia.render.engine_groups import SHORTEST_DRAIN_S
from cascadia.router.settings.model import Limits
from tests.data import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
PROGRAM = "/opt/cascadia/bin/cascadia"
ANALYZE = shutil.which("systemd-analyze")


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(FOLDER / f"{name}.service")
    return found


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
def test_systemd_takes_them(tmp_path: Path) -> None:
    """With a program and a user that are on this machine."""
    assert ANALYZE is not None
    for path in UNITS:
        text = path.read_text().replace(PROGRAM, sys.executable).replace("User=cascadia", "User=root")
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        [ANALYZE, "verify", "--man=no", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_what_they_start_is_understood(path: Path) -> None:
    program, name, *arguments = shlex.split(unit(path.stem)["Service"]["ExecStart"])
    assert program == PROGRAM
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command.make_context(name, [argument for argument in arguments if not argument.startswith("$")])


def test_a_stop_waits_for_the_drain_and_tells_the_supervisor_alone() -> None:
    service = unit("cascadia")["Service"]
    router_s = Limits().drain_s + 5.0
    assert int(service["TimeoutStopSec"]) >= router_s + SHORTEST_DRAIN_S
    assert service["KillMode"] == "mixed", "engines are ended by their supervisor, after the router"
    assert service["Type"] == "notify"
    assert service["RestartPreventExitStatus"] == "2"
    assert "--resume" in service["ExecStart"], "a reboot does not take the fleet back"
    assert LocalFleet.close.__doc__ == "The router finishes what it has, then all engines end."


def test_the_page_tells_the_same() -> None:
    page = (ROOT / "docs" / "how-to" / "systemd.md").read_text()
    for path in UNITS:
        assert path.name in page
    assert f"TimeoutStopSec={unit('cascadia')['Service']['TimeoutStopSec']}" in page
    assert f"`limits.drain_s` ({Limits().drain_s:.0f} s, and 5)" in page
    assert f"an engine's own drain ({SHORTEST_DRAIN_S} s)" in page
