"""`cascadia compare` on files: every system has a row, and none beats the plan at its bar."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    write_spec(tmp_path, valid_spec())
    return tmp_path


def test_compare_gives_every_system_a_row_and_none_beats_the_plan_at_its_bar(folder: Path) -> None:
    result = run("compare", str(folder / "cascade.yaml"), "--json", "--plots", str(folder / "cmp.html"))
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    systems = {s["name"]: s for s in document["systems"]}
    assert {"cascadia", "cascadeserve", "pre-router", "uniform parallelism", "uniform allocation"} <= set(
        systems
    )
    ours = systems["cascadia"]["latency_s"]
    for name in ("cascadeserve", "uniform parallelism", "uniform allocation", "no refinement"):
        theirs = systems[name]["latency_s"]
        assert theirs is None or theirs >= ours * 0.999, name
    assert "Attainment" in (folder / "cmp.html").read_text()
