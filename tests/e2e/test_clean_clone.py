"""A stranger's first minutes: clone, `make demo-plan`, read. Takes a package index, and about two minutes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.data import ROOT


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository: there is nothing to clone")
    folder = tmp_path_factory.mktemp("clone") / "cascadia"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def demo(clone: Path) -> "subprocess.CompletedProcess[str]":
    """With nothing installed and nothing cached, as it is for them."""
    fresh = {"CASCADIA_CACHE_DIR": str(clone.parent / "cache")}
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    return subprocess.run(
        ["make", "demo-plan"],
        cwd=clone,
        env={**inherited, **fresh},
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_it_plans_the_example(clone: Path, demo: "subprocess.CompletedProcess[str]") -> None:
    assert demo.returncode == 0, demo.stderr
    assert "GPUs serve" in demo.stdout
    assert (clone / "demo-plan" / "report.html").stat().st_size > 50_000


def test_it_prints_what_the_readme_shows(clone: Path, demo: "subprocess.CompletedProcess[str]") -> None:
    shown = (clone / "README.md").read_text()
    begin = demo.stdout.rindex("\n", 0, demo.stdout.index("GPUs serve")) + 1
    assert demo.stdout[begin : demo.stdout.index("written to")] in shown


def test_what_it_suggests_works_as_printed(clone: Path, demo: "subprocess.CompletedProcess[str]") -> None:
    suggested = [
        line.strip() for line in demo.stdout.splitlines() if line.startswith("  ") and "plan " in line
    ]
    assert suggested
    done = subprocess.run(
        ["bash", "-c", suggested[0]], cwd=clone, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_git_sees_nothing_new(clone: Path, demo: "subprocess.CompletedProcess[str]") -> None:
    """All that make writes is ignored."""
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True, timeout=600
    )
    assert status.stdout == ""
