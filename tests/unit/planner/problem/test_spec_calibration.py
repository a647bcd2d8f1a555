"""A calibration that a spec names decides the stage's iteration times, on the GPU that it was measured on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.problem.read import read_problem
from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.calibration.file import write_calibration
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from tests.unit.planner.plans import a_plan
from tests.unit.planner.specs import changed, valid_spec, write_spec

H100 = gpu("h100-sxm")


def measured(**other: Any) -> Calibration:
    """An engine that loses a whole second in each iteration."""
    found = find_calibration(H100, "sglang", "bf16")
    slow = replace(found.efficiency, iteration_s=1.0)
    named = {"gpu": "h100-sxm", "engine": "sglang", "precision": "bf16", "efficiency": slow}
    return replace(found, **(named | other))


def test_a_stage_is_as_fast_as_its_calibration_says(folder: Path) -> None:
    write_calibration(measured(), folder / "own.json")
    problem = read_problem(write_spec(folder, changed("stages.0.calibration", "own.json")))
    stage = problem.stages[0]
    on_h100 = replica_timing(stage.architecture, H100, tp=1, pp=1, config=stage.config)
    assert on_h100.token_ps[1] > 1e12
    elsewhere = replica_timing(stage.architecture, gpu("b200-sxm"), tp=1, pp=1, config=stage.config)
    assert elsewhere.token_ps[1] < 0.1e12


def test_its_content_is_part_of_what_was_planned(folder: Path) -> None:
    spec = write_spec(folder, changed("stages.0.calibration", "own.json"))
    digests = set()
    for version in ("1", "2"):
        write_calibration(measured(engine_version=version), folder / "own.json")
        digests.add(read_problem(spec).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"gpu": "l4"},
            r"stages\[0\]\.calibration: was measured on l4, and no pool has that; the pools have h100",
        ),
        ({"engine": "vllm"}, r"own\.json was measured on vllm, this runs sglang; measure this one"),
        ({"precision": "fp8"}, r"own\.json was measured at fp8, this runs at bf16"),
    ],
)
def test_one_measured_on_something_else_is_refused(folder: Path, other: dict[str, str], told: str) -> None:
    write_calibration(measured(**other), folder / "own.json")
    with pytest.raises(BadInput, match=told):
        read_problem(write_spec(folder, changed("stages.0.calibration", "own.json")))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"stages\[0\]\.calibration: .*own\.json: cannot be read"),
        ("nonsense", r"own\.json: is not JSON"),
        ("{}", r"own\.json: .*missing"),
    ],
)
def test_a_file_that_is_none_is_refused(folder: Path, content: str | None, told: str) -> None:
    if content is not None:
        (folder / "own.json").write_text(content)
    with pytest.raises(BadInput, match=told):
        read_problem(write_spec(folder, changed("stages.0.calibration", "own.json")))


def test_a_judge_on_the_cluster_has_its_own(folder: Path) -> None:
    write_calibration(measured(engine="vllm"), folder / "own.json")
    document = valid_spec()
    document["judge"]["calibration"] = "own.json"
    config = read_problem(write_spec(folder, document)).judge.config
    assert config is not None
    assert config.calibration == measured(engine="vllm")


def test_a_plan_keeps_the_calibration_it_was_made_with() -> None:
    plan = a_plan()
    stage = replace(plan.stages[0], config=EngineConfig(engine="sglang", calibration=measured()))
    kept = replace(plan, stages=(stage, *plan.stages[1:]))
    assert parse_plan(plan_json(kept), "plan.json") == kept
