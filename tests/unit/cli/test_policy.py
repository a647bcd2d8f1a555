"""`cascadia policy` writes what a router looks up, and says what comes nearest where nothing will do."""

import json
import re
from pathlib import Path

import pytest

from cascadia.files.policies_file import read_policies
from tests.unit.cli.commands import run
from tests.unit.planner.policies.test_read import SPEC, written


def test_workers_and_policies_are_chosen_written_and_told(tmp_path: Path) -> None:
    result = run("policy", str(written(tmp_path)), "--out", str(tmp_path / "out"), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    policies = read_policies(tmp_path / "out")
    assert told["workers"] == policies.workers
    assert told["policies"] == policies.kind
    assert told["outcome"]["accuracy"] >= 75
    assert told["outcome"]["late"] <= 0.01
    assert policies.levels[0].decide(1, 0.1).model == "large"


@pytest.mark.long
def test_people_see_the_rivals_side_by_side(tmp_path: Path) -> None:
    result = run("policy", str(written(tmp_path)), "--compare")
    assert result.exit_code == 0, result.output
    assert re.match(r"(1 worker|(?!1 )\d+ workers) of kind .*, (1 level|(?!1 )\d+ levels)\b", result.stdout)
    names = [line.split()[0] for line in result.stdout.splitlines() if line]
    for name in ("mdp", "in-flight", "jellyfish+", "modelswitching", "gears", "greedy", "mixture"):
        assert name in names


def test_what_cannot_be_had_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    result = run("policy", str(written(tmp_path, SPEC.replace("quality_min: 75", "quality_min: 81"))))
    assert result.exit_code == 3
    assert "infeasible: objective.quality_min 81 of group 'guard'" in result.output
