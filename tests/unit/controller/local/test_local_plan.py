"""What of a plan the router of this machine is told."""

from dataclasses import replace
from pathlib import Path

from cascadia.controller.local.desired import local_plan
from tests.unit.controller.machine import local, two_stages


def test_the_router_skips_whom_the_plan_says_and_another_rule_is_another_routing(tmp_path: Path) -> None:
    plan = two_stages(1, 1)
    judged = local(tmp_path)
    judged = judged.model_copy(
        update={
            "router": {**judged.router, "judge": {"kind": "embedding", "replicas": [{"url": "http://h:1"}]}}
        }
    )
    embedding = replace(plan, judge=replace(plan.judge, kind="embedding"))
    skipping = local_plan(replace(embedding, skip_below=(22.0,)), judged)
    asking = local_plan(replace(embedding, skip_below=(0.0,)), judged)
    assert [stage.get("skip_below") for stage in skipping.router["stages"]] == [22.0, None]
    assert all("skip_below" not in stage for stage in asking.router["stages"])
    assert skipping.routing != asking.routing
