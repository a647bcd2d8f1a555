"""Stages that are somebody else's API, in a release: no pods of theirs, their key and their part of the limit."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cascadia.domain.errors import BadInput
from cascadia.render import render
from cascadia.render.targets import targets_for
from cascadia.router.settings.file import read_settings
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.deploy.chart import Object, by_helm, template
from tests.unit.deploy.matrix import API, BURSTS, FRONTIER, ONE, Case


def router_yaml(found: dict[Any, Object]) -> Any:
    (config,) = (
        o for (_, kind, name), o in found.items() if kind == "ConfigMap" and name == "cascadia-router"
    )
    return yaml.safe_load(config["data"]["router.yaml"])


def test_a_router_of_a_release_is_told_the_address_the_key_and_its_part_of_the_limit(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_helm(4, "a stage elsewhere")
    config = router_yaml(found)
    assert [s["name"] for s in config["stages"]] == ["small", "frontier"]
    # 605 a minute over at most 8 routers.
    assert config["stages"][1]["replicas"] == [
        {
            "url": "https://api.example.com",
            "health_path": None,
            "api_key_env": "FRONTIER_KEY",
            "requests_per_minute": 75,
        }
    ]
    monkeypatch.setenv("FRONTIER_KEY", "secret")
    (tmp_path / "router.yaml").write_text(yaml.safe_dump(config))
    frontier = read_settings(tmp_path / "router.yaml").stages[1]
    assert (frontier.model, frontier.price) == ("any-name", (2.5, 10.0))
    router = found["apps/v1", "Deployment", "cascadia-router"]
    (container,) = router["spec"]["template"]["spec"]["containers"]
    (key,) = (each for each in container["env"] if each["name"] == "FRONTIER_KEY")
    assert key["valueFrom"]["secretKeyRef"] == {"name": "cascadia-external", "key": "FRONTIER_KEY"}
    assert not any("frontier" in name for _, _, name in found)


def test_gears_ask_it_as_any_other_stage(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTIER_KEY", "secret")
    (tmp_path / "router.yaml").write_text(
        yaml.safe_dump(router_yaml(by_helm(4, "gears with a stage elsewhere")))
    )
    told = read_settings(tmp_path / "router.yaml")
    assert [gear.stages for gear in told.gears] == [gear.stages for gear in BURSTS]
    assert [gear.thresholds for gear in told.gears] == [{"small": 40.0, "large": 60.0}, {"small": 55.0}]
    assert told.stages[2].replicas[0].requests_per_minute == 75


def test_stages_stand_in_the_cascades_order() -> None:
    config = router_yaml(by_helm(4, "stages elsewhere, in the middle and without a key"))
    assert [s["name"] for s in config["stages"]] == ["small", "a", "b", "large"]
    assert "api_key_env" not in config["stages"][1]["replicas"][0]
    # 605 over 2 routers.
    assert config["stages"][1]["replicas"][0]["requests_per_minute"] == 302
    assert "requests_per_minute" not in config["stages"][2]["replicas"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"requestsPerMinute": 7}, "frontier may be sent 7 requests a minute, and there may be 8 routers"),
        ({"servedModelName": "other"}, '"other" is not among cascade.stages'),
    ],
)
def test_what_no_router_could_keep_is_refused(change: dict[str, Any], said: str) -> None:
    values = copy.deepcopy(FRONTIER)
    values["externalStages"][0] |= change
    done = template(4, Case(values))
    assert done.returncode != 0
    assert said in done.stderr
    found = plan([stage("small", ONE)], POOLS)
    with pytest.raises(BadInput, match=said):
        render(found, found.cluster, "kubernetes", values=values)


def test_an_api_at_no_known_address_is_left_to_the_router_by_hand() -> None:
    away = stage("frontier", model="any-name", external=replace(API, base_url=None))
    found = plan([stage("small", ONE), away], POOLS)
    assert targets_for(found) == ("compose", "local")
    with pytest.raises(BadInput, match="nothing says where; write base_url into the spec"):
        render(found, found.cluster, "helm-values")
