"""One rule for names: what a spec takes goes all the way to a router that starts; what the router refuses, so does
the spec, the plan and the chart, each in one line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cascadia.domain.errors import BadInput
from cascadia.domain.names import LONGEST_NAME
from cascadia.domain.plan import Plan, ReplicaGroup
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.spec.file import check_spec
from cascadia.planner.spec.policy import OnePassStage
from cascadia.render import render
from cascadia.render.kubernetes import BUILT_IN, Release, objects
from cascadia.render.kubernetes.chart_values import defaults, merged
from cascadia.render.kubernetes.checks import check
from cascadia.router.server.app import Router
from cascadia.router.settings.file import read_settings
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.deploy.matrix import CERTAINTY, values_of
from tests.unit.planner.specs import changed

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)
RIGHT = [
    "engines",
    "test",
    "controller-state",
    "on",
    "1e3",
    "0x1f",
    "null",
    "Small",
    "a/../b",
    "7.",
    "a" * LONGEST_NAME,
]
WRONG = [
    "a b",
    "größe",
    "-a",
    ".",
    "$(HOME)",
    "a=b",
    "a:b",
    "a\n",
    " ",
    "",
    "judge",
    "foresight",
    "cascadia",
    "a" * 101,
]


def planned(name: str) -> Plan:
    return plan([stage(name, ONE), stage("small", ONE)], POOLS, CERTAINTY)


def chart(values: dict[str, Any]) -> dict[str, Any]:
    release = Release(merged(defaults(), values), "cascadia", "default", BUILT_IN)
    check(release)
    (text,) = [o["data"]["router.yaml"] for o in objects(release) if "router.yaml" in o.get("data", {})]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def compose(found: Plan) -> dict[str, Any]:
    (document,) = yaml.safe_load_all(render(found, found.cluster, "compose"))
    settings: dict[str, Any] = yaml.safe_load(document["configs"]["router"]["content"])
    return settings


async def starts(document: dict[str, Any], folder: Path) -> list[str]:
    file = folder / "router.yaml"
    file.write_text(json.dumps({**document, "port": 0}))
    router = Router(read_settings(file, {}))
    await router.start()
    try:
        return [each.name for each in router.stages]
    finally:
        await router.stop()


@pytest.mark.parametrize("name", RIGHT)
def test_a_name_that_a_spec_takes_goes_all_the_way(name: str, tmp_path: Path) -> None:
    spec = check_spec(changed("stages.1.name", name), "cascade.yaml")
    assert spec.stages[1].name == OnePassStage(name=name, group=name).group == name
    found = parse_plan(plan_json(planned(name)), "plan.json")
    for document in (chart(values_of(found)), compose(found)):
        assert asyncio.run(starts(document, tmp_path)) == [name, "small"]


@pytest.mark.parametrize("name", WRONG)
def test_what_the_router_refuses_nothing_before_it_takes(name: str, tmp_path: Path) -> None:
    said = []
    (tmp_path / "router.yaml").write_text(
        json.dumps({"stages": [{"name": name, "replicas": [{"url": "http://127.0.0.1:1"}]}]})
    )
    for refuses in (
        lambda: read_settings(tmp_path / "router.yaml", {}),
        lambda: check_spec(changed("stages.1.name", name), "cascade.yaml"),
        lambda: parse_plan(plan_json(planned(name)), "plan.json"),
        lambda: chart(values_of(planned(name))),
    ):
        with pytest.raises(BadInput) as caught:
            refuses()
        said.append(str(caught.value))
    assert all("\n" not in one and len(one) < 500 and "stages[" in one for one in said), said


def test_pools_have_names_by_the_same_rule() -> None:
    for path, value in (
        ("cluster.pools.0.name", "my pool"),
        (
            "cluster.pools.0.gpu",
            {"name": "my=gpu", "memory_gib": 96, "bandwidth_gb_s": 1800, "tflops": {"bf16": 500}},
        ),
    ):
        with pytest.raises(BadInput, match=r"which is no name; write letters, digits"):
            check_spec(changed(path, value), "cascade.yaml")
