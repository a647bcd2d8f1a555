"""The examples under docs/examples: their data is what its script writes, and each spec is read and can be planned."""

import runpy
from pathlib import Path

import pytest

from cascadia.planner.problem.read import read_problem
from tests.data import ROOT

FOLDER = ROOT / "docs" / "examples"
SPECS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_says_how_it_is_planned_and_is_read(path: Path) -> None:
    assert f"#     cascadia plan {path.name} --out plan/\n" in path.read_text()
    problem = read_problem(path)
    assert len(problem.workload) == 500
    assert len(problem.quality) == 200


def test_their_data_is_what_the_script_writes(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make_data.py"))["write"](tmp_path)
    written = sorted(tmp_path.iterdir())
    assert [path.name for path in written] == sorted(path.name for path in FOLDER.glob("*.csv"))
    for path in written:
        assert path.read_text() == (FOLDER / path.name).read_text()


def test_the_readme_shows_each() -> None:
    page = (FOLDER / "README.md").read_text()
    assert [path.name for path in SPECS if f"]({path.name})" not in page] == []
