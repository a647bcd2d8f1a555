"""What is installed says the truth of itself: its name, what its extras need, where it runs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cascadia.files.extras import DISTRIBUTION, install
from tests.data import ROOT
from tests.unit.cli.commands import run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OTHERS = re.compile(r"pip install[^\n]*['\" ]cascadia(\[|['\"\s]|$)|\bcascadia\[\w+\]")
"""`cascadia` on the package index is another project."""

NOT_LINUX = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "resource", "uvloop", "termios", "pwd", "grp"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import os
del os.sched_getaffinity
from cascadia.cli.main import main
for command in ("plan", "simulate", "compare", "init", "trace", "import", "render", "chart", "catalogue", "schema"):
    main.get_command(None, command)
import cascadia.planner.plan, cascadia.planner.replay.replay, cascadia.planner.thinning, cascadia.report.html
import cascadia.frames.plans, cascadia.imports.trace
print("planned")
"""


def test_no_message_or_page_sends_people_to_another_project() -> None:
    places = [*(ROOT / "cascadia").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert [str(path) for path in places if OTHERS.search(path.read_text(encoding="utf-8"))] == []


def test_an_extra_is_told_by_its_packages() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert re.fullmatch(r"pip install 'pandas[<>=,.\d]+'", install("pandas"))
    assert install("nothing") == f"pip install '{DISTRIBUTION}[nothing]'"
    for extra in set(PROJECT["optional-dependencies"]) - {"dev", "long"}:
        assert DISTRIBUTION not in install(extra), extra


def test_what_an_index_shows_has_no_link_that_leads_nowhere() -> None:
    text = PROJECT["readme"]["text"]
    assert re.findall(r"\]\((?!https://)", text) == []
    assert DISTRIBUTION in text


@pytest.mark.parametrize("command", [("up", "plan"), ("demo", "--out", "demo-run")])
def test_what_needs_linux_says_so(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    done = run(*command)
    assert done.exit_code == 2
    assert f"cascadia {command[0]}: needs Linux, and this is Darwin; plan and simulate here" in done.stderr


def test_planning_loads_nothing_that_only_linux_has(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_LINUX],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout == "planned\n", done.stderr
