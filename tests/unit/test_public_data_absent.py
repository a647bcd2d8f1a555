"""Where public data is absent tests skip, and the run says so at its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import ROOT

NEEDS = "tests/unit/sim/models/test_catalogues.py"
READS_BY_ITSELF = """
import pytest
from tests.data import data_dir

pytest_plugins = ["tests.conftest_data"]

def test_reads() -> None:
    (data_dir() / "quality" / "a.csv").read_text()

@pytest.fixture
def rows():
    return (data_dir() / "b.csv").open()

def test_takes_a_fixture(rows) -> None:
    pass

def test_misses_a_file_of_its_own(tmp_path) -> None:
    (tmp_path / "c.csv").read_text()
"""


def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "CASCADIA_DATA": str(data), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("there", [True, False])
def test_tests_skip_and_the_run_says_how_many_and_why(tmp_path: Path, there: bool) -> None:
    data = tmp_path if there else tmp_path / "nowhere"
    done = run(data, "-m", "data", NEEDS)
    assert done.returncode == 0, done.stdout
    how = "lacks files that they need" if there else "is not there"
    assert f"9 tests skipped: public data is absent ({data} {how}" in done.stdout
    assert "failed" not in done.stdout


def test_what_opens_a_file_by_itself_skips_too_and_no_other_missing_file_does(tmp_path: Path) -> None:
    own = tmp_path / "test_own.py"
    own.write_text(READS_BY_ITSELF)
    done = run(tmp_path / "data", str(own), "--rootdir", str(tmp_path), "-rs")
    assert "1 failed, 2 skipped" in done.stdout, done.stdout
    assert "test_misses_a_file_of_its_own" in done.stdout
    assert "2 tests skipped: public data is absent" in done.stdout
