"""Workers of one-pass models on this machine: one launch for all models of a group."""

import json
from pathlib import Path

import pytest

from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.local.router_file import with_replicas
from cascadia.domain.errors import BadInput
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of
from tests.unit.planner.policies.one_pass_plans import RANKED, planned

AT = ["http://127.0.0.1:8100", "http://127.0.0.1:8101"]


def test_a_worker_has_all_models_and_the_router_the_plans_policies(tmp_path: Path) -> None:
    plan = planned().plan
    found = local_plan(plan)
    ((kind, launch),) = found.launches.items()
    assert (kind.stage, found.counts[kind], found.routing.stages) == ("guard", plan.gpus, ("guard",))
    assert launch.cores
    served = tuple(argument.partition("=")[0] for argument in launch.argv if "/models/" in argument)
    assert served == plan.policies[0].models
    document = with_replicas(found.router, found.routing.stages, lambda _: [{"url": url} for url in AT])
    (tmp_path / "router.yaml").write_text(json.dumps(document))
    settings = read_settings(tmp_path / "router.yaml")
    assert settings.groups[0].policies == plan.policies[0]
    assert {stage.group for stage in settings.stages} == {"guard"}
    assert all([replica.url for replica in stage.replicas] == AT for stage in settings.stages)


@pytest.mark.long
def test_rerankers_are_served_by_their_policies_too(tmp_path: Path) -> None:
    found = local_plan(planned(RANKED).plan)
    assert found.task == "rerank"
    document = with_replicas(found.router, found.routing.stages, lambda _: [{"url": url} for url in AT])
    (tmp_path / "router.yaml").write_text(json.dumps(document))
    settings = read_settings(tmp_path / "router.yaml")
    assert (settings.task, settings.groups[0].policies) == ("rerank", planned(RANKED).plan.policies[0])


def test_a_router_of_the_plan_itself_wants_the_workers_of_the_group() -> None:
    plan = planned().plan
    urls = [f"http://h:{8100 + number}" for number in range(plan.gpus)]
    settings = settings_of(plan, {"guard": urls}, "plan.json")
    assert settings.groups[0].policies == plan.policies[0]
    assert [replica.url for replica in settings.stages[0].replicas] == urls
    with pytest.raises(BadInput, match="the plan deploys no such stage; it has guard"):
        settings_of(plan, {"tiny": urls}, "plan.json")


def test_a_command_of_ones_own_is_named_by_the_group() -> None:
    plan = planned().plan
    own = Local(stages={"guard": Engine(command=["serve", "{port}"])})
    (launch,) = local_plan(plan, own).launches.values()
    assert launch.argv == ("serve", "{port}")
    with pytest.raises(BadInput, match=r"stages\.tiny: the plan has no such stage; it has guard"):
        local_plan(plan, Local(stages={"tiny": Engine(command=["serve"])}))
