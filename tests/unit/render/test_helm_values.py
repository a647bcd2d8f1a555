from typing import Any

import yaml

from cascadia.render import render
from tests.unit.render.plans import POOLS, plan, stage, three_stages

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


def test_thresholds_and_gears_are_the_plans() -> None:
    assert VALUES["cascade"]["thresholds"] == {"small": 50.0, "medium": 50.0}
    assert VALUES["cascade"]["gears"] == [
        {"maxRateRps": 4.0, "entryStage": "small", "thresholds": [80.0, 80.0]}
    ]


def test_a_judge_without_gpus_has_no_groups() -> None:
    lone = plan([stage("s")], POOLS)
    assert yaml.safe_load(render(lone, POOLS, "helm-values"))["judge"] == {
        "kind": "embedding",
        "placement": "router",
    }
