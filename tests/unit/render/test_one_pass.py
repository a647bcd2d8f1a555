"""Workers of one-pass models as processes: each has all models of its group; no other target holds them."""

import json
from dataclasses import replace

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.render import notes, render, targets_for
from tests.unit.planner.policies.one_pass_plans import SPEC, planned


def test_each_worker_serves_all_models_under_their_stages_names() -> None:
    plan = planned(SPEC.replace("rate_rps: 300", "rate_rps: 500")).plan
    processes = json.loads(render(plan, plan.cluster, "local"))
    assert len(processes) == plan.gpus > 1
    assert len({process["port"] for process in processes}) == plan.gpus
    models = [argument for argument in processes[0]["argv"] if "=" in argument]
    assert models == [f"{stage.name}={stage.model}" for stage in plan.stages if stage.deployed]
    assert targets_for(plan) == ("local",)
    assert notes(plan) == ()


def test_another_target_is_refused_in_one_line() -> None:
    plan = planned().plan
    for target in ("kubernetes", "helm-values", "compose"):
        with pytest.raises(BadInput, match=r"--target .*by its own address.* write --target local"):
            render(plan, plan.cluster, target)  # type: ignore[arg-type]


def test_a_stage_that_left_its_group_by_hand_is_told() -> None:
    plan = planned().plan
    edited = replace(plan, stages=(replace(plan.stages[0], group=None), *plan.stages[1:]))
    with pytest.raises(BadInput, match=r"stages\[0\]: is in no group"):
        render(edited, edited.cluster, "local")


def test_engines_are_started_with_the_exits_of_the_plan() -> None:
    plan = replace(planned().plan, exits=ExitPromise(0.02, 0.95, 0.1))
    (process, *_) = json.loads(render(plan, plan.cluster, "local"))
    at = process["argv"].index("--exits")
    assert process["argv"][at : at + 7] == [
        *("--exits", "--risk", "0.02"),
        *("--confidence", "0.95", "--shadow", "0.1"),
    ]
    assert "--exits" not in json.loads(render(planned().plan, plan.cluster, "local"))[0]["argv"]


def test_exits_of_a_model_without_ramps_are_refused() -> None:
    with pytest.raises(BadInput, match=r"has no ramps.json.*cascadia exits train"):
        planned(SPEC + "exits: {risk: 1%, shadow: 10%}\n")
