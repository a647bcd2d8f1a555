"""A controller starts with a spec and a plan of the same fleet, or says in one line what differs."""

from pathlib import Path
from typing import Any

import pytest

from cascadia.controller.decide.agreement import check_agreement
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import write_plan
from tests.unit.cli.commands import run
from tests.unit.controller.machine import two_stages
from tests.unit.controller.specs import spec_of, write_spec_of
from tests.unit.planner.specs import write_spec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(two_stages(2, 1), tmp_path / "plan.json")
    write_spec_of(two_stages(2, 1), tmp_path)
    return tmp_path


def changed(folder: Path, change: Any) -> None:
    spec = spec_of(two_stages(2, 1))
    change(spec)
    write_spec(folder, spec)


def test_a_plan_and_the_spec_that_it_was_made_from_agree(folder: Path) -> None:
    check_agreement(folder / "cascade.yaml", folder / "plan.json")
    changed(folder, lambda spec: spec["cluster"]["pools"][0].update(nodes=4))
    check_agreement(folder / "cascade.yaml", folder / "plan.json")


DIFFER = [
    (lambda s: s["stages"].pop(), "have other stages (small; small, large)"),
    (lambda s: s["stages"].reverse(), "have other stages (large, small; small, large)"),
    (
        lambda s: s["stages"][1].update(model="org/other"),
        "have other models for large (org/other; org/model)",
    ),
    (lambda s: s["judge"].update(kind="embedding"), "have other judges (embedding; certainty)"),
    (lambda s: s["cluster"]["pools"][0].update(name="there"), "have other pools (there; here)"),
    (lambda s: s["cluster"]["pools"][0].update(gpu="h100-sxm"), "other GPUs in pool here (h100-sxm; l4)"),
    (
        lambda s: s["cluster"]["pools"][0].update(gpus_per_node=2),
        "do not fit: pool here has 2 GPUs, the plan takes 3",
    ),
]


@pytest.mark.parametrize(("change", "said"), DIFFER)
def test_what_differs_is_said(folder: Path, change: Any, said: str) -> None:
    changed(folder, change)
    with pytest.raises(BadInput) as told:
        check_agreement(folder / "cascade.yaml", folder / "plan.json")
    assert said in str(told.value)
    assert "give the spec that this plan was made from, or plan anew" in str(told.value)


@pytest.mark.parametrize("backend", ["local", "kubernetes"])
def test_the_command_says_so_before_it_does_anything(folder: Path, backend: str) -> None:
    changed(folder, DIFFER[0][0])
    (folder / "run").mkdir()
    (folder / "values.yaml").write_text("{}")
    arguments = ["cascade.yaml", "plan.json", "values.yaml", "run"]
    spec, plan, values, run_dir = (str(folder / name) for name in arguments)
    done = run("controller", spec, plan, "--backend", backend, "--values", values, "--run-dir", run_dir)
    assert done.exit_code == 2
    assert "have other stages (small; small, large)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list((folder / "run").iterdir()) == []
