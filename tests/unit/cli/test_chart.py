"""`cascadia chart` writes the chart that Helm takes, file by file."""

import subprocess
from pathlib import Path

from tests.data import ROOT
from tests.unit.cli.commands import run
from tests.unit.cli.test_main import CASCADIA

CHART = ROOT / "deploy" / "helm" / "cascadia"


def test_the_chart_that_is_written_is_the_one_of_this_version(tmp_path: Path) -> None:
    out = tmp_path / "chart"
    assert run("chart", "--out", str(out)).exit_code == 0
    ours = {file.relative_to(CHART): file.read_bytes() for file in CHART.rglob("*") if file.is_file()}
    assert {file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()} == ours


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused = run("chart", "--out", str(tmp_path))
    assert refused.exit_code == 2
    assert "Chart.yaml" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.txt"]


def test_a_folder_that_takes_no_more_is_told_in_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    command = [*CASCADIA, "chart", "--out", str(tmp_path / "chart")]
    full = ["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", *command]
    done = subprocess.run(full, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert (
        done.stderr
        == f"error: {tmp_path}/chart: cannot be written to (File too large); name another with --out\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_chart_is_written_over_an_earlier_one_and_files_of_yours_in_it_stay(tmp_path: Path) -> None:
    out = tmp_path / "chart"
    assert run("chart", "--out", str(out)).exit_code == 0
    (out / "templates" / "mine.yaml").write_text("mine")
    (out / "templates" / "router.yaml").write_text("of an earlier version")
    again = run("chart", "--out", str(out))
    assert again.exit_code == 0, again.stderr
    assert "templates/mine.yaml" in again.stderr
    assert (out / "templates" / "mine.yaml").read_text() == "mine"
    ours = {file.relative_to(CHART): file.read_bytes() for file in CHART.rglob("*") if file.is_file()}
    assert {name: (out / name).read_bytes() for name in ours} == ours
    assert [one for one in out.iterdir() if one.name.startswith(".cascadia-")] == []
