"""Each example under docs/examples is planned as it stands, and its plan is a cascade that holds."""

from pathlib import Path

import pytest

from cascadia.files.plan_file import read_plan
from tests.data import ROOT
from tests.e2e.commands import environment, told

SPECS = sorted((ROOT / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_an_example_is_planned_as_a_cascade(path: Path, tmp_path: Path) -> None:
    told(path.parent, "plan", path.name, "--out", str(tmp_path / "plan"), env=environment(tmp_path))
    plan = read_plan(tmp_path / "plan")
    assert sum(stage.deployed for stage in plan.stages) > 1
    assert plan.objective.quality_min
    assert plan.predicted.quality.lower >= plan.objective.quality_min
    assert plan.headroom
    assert plan.headroom > 1.0
    assert (tmp_path / "plan" / "report.html").exists()
