"""The router reads what the chart writes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import RouterSettings
from tests.unit.deploy.chart import by_helm, by_us, router_settings
from tests.unit.deploy.matrix import MATRIX


def settings(name: str, folder: Path) -> RouterSettings:
    file = folder / "router.yaml"
    file.write_text(json.dumps(router_settings(by_us(name))))
    return read_settings(file, {"CASCADIA_JUDGE_KEY": "a-key", "FRONTIER_KEY": "a-key"})


@pytest.mark.long(in_ci=15)
@pytest.mark.parametrize("name", [n for n in MATRIX if not n.startswith("a controller")])
def test_the_router_takes_its_settings(name: str, tmp_path: Path) -> None:
    found = settings(name, tmp_path)
    values = MATRIX[name].values
    told = {s["servedModelName"]: s for s in (*values["stages"], *values.get("externalStages", ()))}
    order = [name for name in values["cascade"]["stages"] if name in told] or list(told)
    assert [stage.name for stage in found.stages] == order
    assert [stage.threshold for stage in found.stages] == [told[name]["threshold"] for name in order]
    assert (found.judge.kind if found.judge else "none") == values["judge"]["kind"]
    assert (found.host, found.port) == ("0.0.0.0", 8000)


@pytest.mark.parametrize("name", ["three stages", "a long release name", "another release"])
def test_each_pod_is_a_replica_with_its_part_of_the_groups_share(name: str, tmp_path: Path) -> None:
    services = {
        o["metadata"]["name"]
        for o in by_us(name).values()
        if o["kind"] == "Service" and o["spec"].get("clusterIP") == "None"
    }
    found = settings(name, tmp_path)
    assert found.judge is not None
    assert found.judge.stage is not None
    for stage in (*found.stages, found.judge.stage):
        assert {r.url.removeprefix("http://").removesuffix(":8000") for r in stage.replicas} <= services
        assert {r.resolve for r in stage.replicas} == {"dns"}
    # Four replicas and two, of twice 256 sequences.
    assert [(r.share, r.max_concurrency) for r in found.stages[0].replicas] == [(0.175, 512), (0.15, 512)]


def test_a_judges_key_comes_from_a_secret(tmp_path: Path) -> None:
    found = settings("a judge elsewhere", tmp_path)
    assert found.judge is not None
    assert found.judge.stage is not None
    (replica,) = found.judge.stage.replicas
    assert (replica.url, replica.api_key, replica.health_path) == ("https://judge.example", "a-key", None)
    assert "a-key" not in str(by_us("a judge elsewhere"))


def test_a_users_settings_go_over_the_charts() -> None:
    for found in (by_us("a router with all"), by_helm(4, "a router with all")):
        limits = router_settings(found)["limits"]
        assert limits["queue_s"] == 5
        assert limits["max_body_bytes"] == 33554432
        assert limits["drain_s"] == 300


def test_a_router_outlives_its_drain() -> None:
    router = by_us("three stages")["apps/v1", "Deployment", "cascadia-router"]["spec"]["template"]["spec"]
    limits = router_settings(by_us("three stages"))["limits"]
    assert router["terminationGracePeriodSeconds"] > limits["drain_notice_s"] + limits["drain_s"]


def test_routers_are_at_least_two() -> None:
    found = by_us("three stages")
    scaler = found["autoscaling/v2", "HorizontalPodAutoscaler", "cascadia-router"]["spec"]
    assert scaler["minReplicas"] == 2
    assert scaler["scaleTargetRef"]["name"] == "cascadia-router"
    assert "replicas" not in found["apps/v1", "Deployment", "cascadia-router"]["spec"]
    fixed = by_us("fixed routers")
    assert fixed["apps/v1", "Deployment", "cascadia-router"]["spec"]["replicas"] == 3
    assert not [kind for _, kind, _ in fixed if kind == "HorizontalPodAutoscaler"]


def test_gears_come_with_the_number_of_replicas_that_were_planned(tmp_path: Path) -> None:
    found = settings("gears", tmp_path)
    assert [(gear.max_in_flight, gear.stages) for gear in found.gears] == [
        (24.5, ("small", "large")),
        (None, ("small",)),
    ]
    assert found.when_overloaded == "refuse"
    assert settings("three stages", tmp_path).when_overloaded == "queue"
    assert [replica.planned for replica in found.stages[0].replicas] == [4, 2]
    assert {
        replica.planned for stage in settings("three stages", tmp_path).stages for replica in stage.replicas
    } == {1}


@pytest.mark.parametrize("name", ["exits that are certified", "exits of odd promises"])
def test_exits_come_with_their_promise(name: str, tmp_path: Path) -> None:
    thinker, large = settings(name, tmp_path).stages
    promised = MATRIX[name].values["cascade"]["exits"]
    assert thinker.promise is not None
    assert asdict(thinker.promise) == promised
    assert (thinker.exits[0].thinking_tokens, thinker.exits[0].threshold) == (512, 80.0)
    assert large.exits == ()
