"""A plan's exits and their promise, as each way of serving it hands them to a router."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cascadia.cli.fleet.up import up
from cascadia.controller.local.desired import local_plan
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPlan, ExitPromise, ForesightPlan, Plan
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.render import render
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import StageSettings
from tests.unit.controller.machine import NO_GPU_JUDGE, local, two_stages
from tests.unit.render.manifests import objects

PROMISE = ExitPromise(0.02, 0.8, 0.25)
ADDRESSES = {"small": ["http://h:1"], "large": ["http://h:3"]}


def exiting(promise: ExitPromise | None = PROMISE, engine: str = "vllm") -> Plan:
    made = two_stages(1, 1)
    small, large = made.stages
    exits = (ExitPlan(512, 80.0, 0.3), ExitPlan(2048, 60.0, 0.2, last=True))
    return replace(made, stages=(replace(small, exits=exits, engine=engine), large), exits=promise)


def in_file(folder: Path, document: Any) -> StageSettings:
    for stage in document["stages"]:
        stage.setdefault("replicas", [{"url": "http://h:1"}])
    (folder / "router.yaml").write_text(json.dumps(document))
    return read_settings(folder / "router.yaml").stages[0]


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
@pytest.mark.parametrize("promise", [PROMISE, None])
def test_every_router_of_a_plan_has_its_exits(
    tmp_path: Path, promise: ExitPromise | None, engine: str
) -> None:
    plan = exiting(promise, engine)
    told = [settings_of(plan, ADDRESSES, "plan.json").stages[0]]
    told.append(in_file(tmp_path, local_plan(plan, local(tmp_path)).router))
    files = settings_of(two_stages(1, 1), ADDRESSES, "plan.json")
    told.append(under_plan(files, plan).stages[0])
    if engine == "vllm":
        compose = yaml.safe_load(render(plan, plan.cluster, "compose"))["configs"]["router"]["content"]
        told.append(in_file(tmp_path, yaml.safe_load(compose.replace("$$", "$"))))
        (config,) = [
            each for each in objects(plan) if each["kind"] == "ConfigMap" and "router.yaml" in each["data"]
        ]
        told.append(in_file(tmp_path, yaml.safe_load(config["data"]["router.yaml"])))
    for stage in told:
        assert [(each.thinking_tokens, each.threshold, each.last) for each in stage.exits] == [
            (512, 80.0, False),
            (2048, 60.0, True),
        ]
        assert (stage.promise, stage.echoes) == (promise, engine == "llama.cpp")


def test_a_promise_of_exits_that_nobody_has_is_one_line(tmp_path: Path) -> None:
    document = {"stages": [{"name": "a", "replicas": [{"url": "http://h:1"}]}], "exits": {"risk": 0.01}}
    with pytest.raises(BadInput, match=r"router\.yaml: exits: .* no stage has any; leave it out"):
        in_file(tmp_path, document)


def test_exits_of_a_model_that_does_not_think_are_one_line(tmp_path: Path) -> None:
    stage = {"name": "a", "task": "classify", "exits": [{"thinking_tokens": 9, "threshold": 1}]}
    with pytest.raises(
        BadInput, match=r"stages\[0\]\.exits: are of models that think, and its task is classify"
    ):
        in_file(tmp_path, {"stages": [stage]})


def test_up_refuses_a_promise_of_exits_that_its_plan_lacks_and_later_plans_may_lack_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "local.yaml").write_text("router: {exits: {risk: 0.01}}\n")
    write_plan(two_stages(1, 1), tmp_path / "plan.json")
    asked = ["--engines", str(tmp_path / "local.yaml"), "--run-dir", str(tmp_path / "run")]
    found = CliRunner().invoke(up, [str(tmp_path), *asked])
    assert isinstance(found.exception, BadInput)
    assert "router.exits" in str(found.exception)
    here = local(tmp_path)
    here = here.model_copy(update={"router": {**here.router, "exits": {"risk": 0.01}}})
    assert local_plan(exiting(), here).router["exits"] == {"risk": 0.01}
    assert "exits" not in local_plan(two_stages(1, 1), here).router


def test_containers_start_an_embedding_judge_with_its_exits() -> None:
    judge = replace(NO_GPU_JUDGE, kind="embedding", model="head.json", exits=ExitPromise(0.05, 0.9, 0.1))
    plan = replace(two_stages(1, 1), judge=judge)
    expected = ["--exits", "--risk", "0.05", "--confidence", "0.9", "--shadow", "0.1"]
    (pod,) = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in objects(plan)
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("judge")
    ]
    assert pod["args"][-7:] == expected
    compose = yaml.safe_load(render(plan, plan.cluster, "compose"))["services"]["judge-service"]
    assert compose["command"] == pod["args"]


def test_every_router_of_a_plan_has_its_budgets(tmp_path: Path) -> None:
    """The plan's foresight has an address, as where it skips a stage by the question alone."""
    made = two_stages(1, 1)
    small = replace(made.stages[0], exits=(ExitPlan(512, 95.0, 0.3),), budget_field="thinking_token_budget")
    plan = replace(made, stages=(small, made.stages[1]), foresight=ForesightPlan("digest", 0.02))
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json").stages[0].budget_field == "thinking_token_budget"
    addresses = ADDRESSES | {"foresight": ["http://h:9"]}
    told = [settings_of(plan, addresses, "plan.json").stages[0]]
    told.append(under_plan(settings_of(plan, addresses, "plan.json"), plan).stages[0])
    for stage in told:
        assert (stage.budget_field, [each.thinking_tokens for each in stage.exits]) == (
            "thinking_token_budget",
            [512],
        )
    assert plan.stage_document("small")["budget_field"] == "thinking_token_budget"
    with pytest.raises(ValueError, match=r"budget_field: needs foresight"):
        write_plan(replace(plan, foresight=None), tmp_path / "none.json")


def test_every_router_of_a_plan_knows_where_a_trial_is_written(tmp_path: Path) -> None:
    made = two_stages(1, 1)
    exits = (ExitPlan(0, 80.0, 0.3, foreseen=95.0), ExitPlan(512, 0.0, 0.2, last=True))
    plan = replace(made, stages=(replace(made.stages[0], exits=exits), made.stages[1]))
    plan = replace(plan, foresight=ForesightPlan("digest", 0.02))
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json").stages[0].exits == exits
    addresses = ADDRESSES | {"foresight": ["http://h:9"]}
    files = settings_of(plan, addresses, "plan.json")
    for stage in (files.stages[0], under_plan(files, plan).stages[0]):
        assert [each.foreseen for each in stage.exits] == [95.0, None]
    for stages, said in (
        (replace(plan.stages[0], exits=(replace(exits[1], foreseen=9.0),)), "an exit that is not the last"),
        (replace(plan.stages[0], exits=exits[:1], budget_field="b"), "at 1 token or more, without foreseen"),
    ):
        with pytest.raises(ValueError, match=said):
            write_plan(replace(plan, stages=(stages, plan.stages[1])), tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"stages\[0\].exits: needs foresight"):
        write_plan(replace(plan, foresight=None), tmp_path / "none.json")
