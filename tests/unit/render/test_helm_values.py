from dataclasses import replace
from typing import Any

import pytest
import yaml

from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear
from cascadia.domain.plan import ASKS_NONE, Mixture, ReplicaGroup
from cascadia.render import render
from cascadia.testing.plans import NO_JUDGE, POOLS, plan, stage, three_stages

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)
PLAN = three_stages()
VALUES: dict[str, Any] = yaml.safe_load(render(PLAN, PLAN.cluster, "helm-values"))


def test_stages_carry_their_groups() -> None:
    assert [s["servedModelName"] for s in VALUES["stages"]] == ["small", "medium", "large"]
    shapes = {
        (s["servedModelName"], g["pool"], g["tensorParallel"], g["pipelineParallel"]): g["replicas"]
        for s in VALUES["stages"]
        for g in s["groups"]
    }
    assert shapes == {
        (s.name, g.pool, g.tp, g.pp): g.count for s in PLAN.stages for g in s.replicas
    }  # fmt: skip


def test_gpus_add_up_to_the_plans() -> None:
    groups = [g for s in [*VALUES["stages"], VALUES["judge"]] for g in s["groups"]]
    assert sum(g["replicas"] * g["podsPerReplica"] * g["gpusPerPod"] for g in groups) == PLAN.gpus


def test_thresholds_are_the_plans() -> None:
    """The last stage accepts whatever it answers."""
    assert [s["threshold"] for s in VALUES["stages"]] == [50.0, 50.0, 0]
    assert "gears" not in VALUES["cascade"]


def test_a_mixture_without_a_gate_deploys_no_judge() -> None:
    two = plan([stage("s", ONE), stage("t", ONE)], POOLS, replace(NO_JUDGE, kind="embedding"))
    coin = replace(two, thresholds=(0.0,), mixture=Mixture(0.25, (ASKS_NONE,), (ASKS_NONE,)))
    kinds = [yaml.safe_load(render(p, POOLS, "helm-values"))["judge"]["kind"] for p in (two, coin)]
    assert kinds == ["embedding", "none"]


def test_gears_are_the_plans() -> None:
    two = plan([stage("s", ONE), stage("t", ONE)], POOLS)
    ladder = (Gear(12.0, 4.0, ("s", "t"), (50.0,)), Gear(None, None, ("t",), (50.0,)))
    values = yaml.safe_load(render(replace(two, gears=ladder), POOLS, "helm-values"))
    assert values["cascade"]["gears"] == [
        {"max_in_flight": 12.0, "stages": ["s", "t"], "thresholds": {"s": 50.0}, "skip_below": {}},
        {"max_in_flight": None, "stages": ["t"], "thresholds": {}, "skip_below": {}},
    ]


def test_a_judge_without_gpus_has_no_groups() -> None:
    two = plan([stage("s", ONE), stage("t", ONE)], POOLS)
    assert yaml.safe_load(render(two, POOLS, "helm-values"))["judge"] == {
        "kind": "embedding",
        "placement": "router",
    }


def test_a_single_stage_needs_no_judge() -> None:
    lone = plan([stage("s", ONE)], POOLS)
    assert yaml.safe_load(render(lone, POOLS, "helm-values"))["judge"]["kind"] == "none"


def test_the_stage_before_one_that_is_not_deployed_is_the_last() -> None:
    found = plan([stage("s", ONE), stage("t", ONE), stage("u")], POOLS)
    stages = yaml.safe_load(render(found, POOLS, "helm-values"))["stages"]
    assert [s["threshold"] for s in stages] == [50.0, 0]


def test_a_router_sends_something_to_every_group() -> None:
    """A share of 0 is none that a router takes."""
    groups = [ReplicaGroup("h100", 1, 1, 3, 1.0), ReplicaGroup("l4", 1, 1, 1, 0.0)]
    (found,) = yaml.safe_load(render(plan([stage("s", *groups)], POOLS), POOLS, "helm-values"))["stages"]
    assert [group["share"] for group in found["groups"]] == [0.75, 0.25]


def test_a_probe_is_refused_since_the_chart_starts_none() -> None:
    told = replace(PLAN, judge=replace(NO_JUDGE, kind="probe"))
    with pytest.raises(BadInput, match="kind probe, and the chart starts no probes"):
        render(told, told.cluster, "helm-values")
