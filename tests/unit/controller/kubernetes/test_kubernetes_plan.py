"""A plan as a cluster runs it: kinds, one workload a replica, and what routers are told while it changes."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
import yaml

from cascadia.controller.kubernetes.desired import REPLICA, KubernetesPlan, Serving, kubernetes_plan
from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.controller.move.state import Routing
from cascadia.controller.move.steps import Route
from cascadia.domain.gear import Gear
from cascadia.domain.objective import UnderLoad
from cascadia.domain.plan import Mixture, Plan
from cascadia.render.kubernetes.chart_values import merged
from cascadia.testing.plans import FRONTIER_API, three_stages
from tests.unit.deploy.matrix import values_of

APIS = frozenset({"policy/v1"})
GEARS = tuple(
    Gear(at, None, ("small", "medium", "large"), (threshold, threshold))
    for at, threshold in ((40.0, 80.0), (None, 60.0))
)
ON: dict[str, Any] = {"controller": {"enabled": True}}


def made(values: dict[str, Any] | None = None, gears: tuple[Gear, ...] = ()) -> KubernetesPlan:
    plan = replace(three_stages(), gears=gears)
    base = merged(values_of(plan), merged(ON, values or {}))
    return kubernetes_plan(plan, base, "cascadia", "llm", APIS)


def told(found: KubernetesPlan, *serving: Serving) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(found.router_yaml(serving))
    return loaded


def test_every_replica_of_the_plan_is_counted_with_its_gpus_and_its_part_of_the_load() -> None:
    found, plan = made(), three_stages()
    assert sum(kind.gpus * n for kind, n in found.counts.items()) == plan.gpus
    for stage in plan.predicted.stages:
        assert found.rates_rps[stage.name] == pytest.approx(stage.rate_rps)
    assert found.routing.thresholds == plan.thresholds


@pytest.mark.parametrize(
    ("changes", "lowest", "said"),
    [
        ({}, three_stages().thresholds, ", ".join(f"{each:g}" for each in three_stages().thresholds)),
        ({"gears": GEARS}, (60.0, 60.0), "small score ≥ 60 … 80, medium score ≥ 60 … 80, by gears"),
        (
            {"mixture": Mixture(0.25, (0.0, 30.0), (0.0, 101.0)), "thresholds": (70.0, 101.0)},
            (0.0, 101.0),
            "small always or score ≥ 70, medium never, by mixture",
        ),
    ],
    ids=["one setting", "gears", "mixture"],
)
def test_a_routing_says_the_thresholds_that_decide(
    changes: dict[str, Any], lowest: tuple[float, ...], said: str
) -> None:
    """Not the plan's own beside gears, at which no answer goes; on this machine and on a cluster alike."""
    plan = replace(three_stages(), **changes)
    started = {name: Engine(command=["engine", "{port}"]) for name in ("small", "medium", "large", "judge")}
    here = local_plan(_on_one_machine(plan), Local(stages=started)).routing
    there = kubernetes_plan(plan, merged(values_of(plan), ON), "cascadia", "llm", APIS).routing
    for found in (here, there):
        assert found.thresholds == lowest
        assert str(Route(found)).endswith(f" at {said}")
        assert Routing.read(json.loads(json.dumps(asdict(found)))) == found


def _on_one_machine(plan: Plan) -> Plan:
    pools = tuple(replace(pool, nodes=1) for pool in plan.cluster.pools)
    return replace(plan, cluster=replace(plan.cluster, pools=pools))


def test_routers_are_told_what_gears_were_planned_for_however_many_replicas_serve() -> None:
    rates = made().rates_rps
    stages = told(made(gears=GEARS), Serving("small", "small", 1.0))["stages"]
    assert {stage["name"]: stage["planned_share"] for stage in stages} == pytest.approx(
        {stage["name"]: rates[stage["name"]] for stage in stages}, rel=1e-5
    )
    assert all("planned_share" not in stage for stage in told(made())["stages"])


def test_other_settings_of_engines_are_other_kinds_and_of_routers_another_routing() -> None:
    plain, router = made(), made({"router": {"config": {"limits": {"queue_s": 5}}}})
    engines = made({"engines": {"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}})
    assert set(plain.made) == set(router.made)
    assert not set(plain.made) & set(engines.made)
    assert plain.routing == engines.routing != router.routing


def test_a_replica_is_a_workload_of_its_own_that_its_groups_service_reaches() -> None:
    found = made()
    for kind, how in found.made.items():
        one, two = how.replica(f"{kind.stage}-3", kind), how.replica(f"{kind.stage}-4", kind)
        assert one["metadata"]["name"] != two["metadata"]["name"]
        assert one["spec"]["replicas"] == 1
        spec = one["spec"]
        pods = (
            [spec["template"]]
            if one["kind"] == "Deployment"
            else [spec["leaderWorkerTemplate"][f"{rank}Template"] for rank in ("leader", "worker")]
        )
        for template in pods:
            assert template["metadata"]["labels"][REPLICA] == one["metadata"]["name"]
        (service,) = [
            o
            for o in how.shared()
            if o["kind"] == "Service" and o["metadata"]["name"].endswith(f"{how.group['name']}-http")
        ]
        assert service["spec"]["selector"].items() <= pods[0]["metadata"]["labels"].items()
    assert {
        o["kind"] for how in found.made.values() for o in [how.replica("x-0", next(iter(found.made)))]
    } == {
        "Deployment",
        "LeaderWorkerSet",
    }


def test_routers_are_told_the_groups_that_serve_whichever_plan_they_are_of() -> None:
    found = made()
    stage = three_stages().stages[0].name
    document = told(found, Serving(stage, "old", 2.0), Serving(stage, "old", 2.0), Serving(stage, "new", 3.0))
    first = document["stages"][0]["replicas"]
    assert [r["url"] for r in first] == ["http://cascadia-new-http:8000", "http://cascadia-old-http:8000"]
    assert [r["share"] for r in first] == [3.0, 2.0]
    # A stage without any is told as planned: its replicas are coming back.
    assert document["stages"][1]["replicas"] == told(found)["stages"][1]["replicas"]


def test_a_text_has_a_revision_of_its_own_that_does_not_change_when_equals_come_and_go() -> None:
    found = made()
    stage = three_stages().stages[0].name
    one, other = Serving(stage, "a", 2.0), Serving(stage, "b", 2.0)
    assert told(found, one)["revision"] == told(found, one, one)["revision"]
    assert told(found, one)["revision"] != told(found, one, other)["revision"]


def _other_ways() -> dict[str, dict[str, Any]]:
    """Fields of plans of the same stages that say otherwise how requests go."""
    stages = three_stages().stages
    away = replace(stages[-1], engine="external", replicas=(), external=FRONTIER_API)
    return {
        "plain": {},
        "gears": {"gears": GEARS, "under_load": UnderLoad(then="refuse")},
        "a mixture": {"mixture": Mixture(0.4, (90.0, 90.0), (0.0, 0.0))},
        "an API": {"stages": (*stages[:-1], away)},
    }


@pytest.mark.long(in_ci=4)
@pytest.mark.parametrize("new", _other_ways())
@pytest.mark.parametrize("old", _other_ways())
def test_nothing_of_the_plan_that_a_release_was_installed_with_is_told_beside_another(
    old: str, new: str
) -> None:
    before, after = (replace(three_stages(), **_other_ways()[which]) for which in (old, new))
    moved, fresh = (
        kubernetes_plan(after, merged(values_of(plan), ON), "cascadia", "llm", APIS)
        for plan in (before, after)
    )
    assert told(moved) == told(fresh)
    assert moved.routing == fresh.routing


def test_the_last_stage_of_ours_keeps_its_threshold_where_an_api_comes_after_it() -> None:
    plan = three_stages()
    away = replace(plan.stages[-1], engine="external", replicas=(), external=FRONTIER_API)
    behind = replace(plan, stages=(*plan.stages[:-1], away))
    base = merged(values_of(behind), ON)
    routing = kubernetes_plan(behind, base, "cascadia", "llm", APIS).routing
    assert routing.stages[:2] == ("small", "medium")
    assert routing.thresholds == plan.thresholds
