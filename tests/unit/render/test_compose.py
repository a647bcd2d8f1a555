"""`docker compose up` gives an endpoint: a router that takes its file, before the engines and the judge."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import JudgePlan, LatencyLine, Plan, ReplicaGroup
from cascadia.render import render
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of
from cascadia.testing.plans import FRONTIER_API, plan, stage
from cascadia_sim.iteration.engine_config import EngineConfig
from tests.unit.render.manifests import documents

ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)
ONE_NODE = Cluster((Pool("h100", "h100-sxm", 1, 8, 2.0),))


def judged(kind: str, placement: str = "router", *replicas: ReplicaGroup, model: str | None = None) -> Plan:
    judge = JudgePlan(
        kind,  # type: ignore[arg-type]
        placement,  # type: ignore[arg-type]
        model,
        engine="vllm",
        quantization=None,
        max_model_len=4096,
        replicas=replicas,
    )
    return plan([stage("small", ONE), stage("large", replace(ONE, count=2))], ONE_NODE, judge)


def composed(found: Plan) -> dict[str, Any]:
    (document,) = documents(render(found, found.cluster, "compose"))
    return dict(document)


def heard(document: dict[str, Any], folder: Path) -> Any:
    """What a router reads of the file, with the variables filled in as compose does."""
    text = document["configs"]["router"]["content"]
    text = text.replace(
        "${CASCADIA_JUDGE_URL:?set it to the address of the judge, without /v1}", "http://judged:9"
    )
    (folder / "router.yaml").write_text(text.replace("$$", "$"))
    return read_settings(folder / "router.yaml")


def test_the_router_asks_every_engine_at_its_services_name(tmp_path: Path) -> None:
    document = composed(judged("certainty"))
    engines = [name for name in document["services"] if name != "router"]
    settings = heard(document, tmp_path)
    urls = [replica.url for each in settings.stages for replica in each.replicas]
    assert urls == [f"http://{name}:8000" for name in engines]
    assert settings.judge.kind == "certainty"
    router = document["services"]["router"]
    assert router["ports"] == ["127.0.0.1:${CASCADIA_PORT:-8000}:8000"]
    assert router["depends_on"] == engines
    assert router["read_only"]
    assert router["cap_drop"] == ["ALL"]


def test_the_router_is_told_what_the_plan_says_of_each_replica(tmp_path: Path) -> None:
    learnt = replace(ONE, latency=LatencyLine(0.125, 0.0005, 0.0225, 0.00008))
    small = stage("small", learnt, balancing="earliest-finish", config=EngineConfig(max_num_seqs=16))
    unequal = replace(ONE, share=0.25), ReplicaGroup("h100", 2, 1, 1, 0.75)
    judge = judged("llm", "self-hosted", *unequal, model="org/judge").judge
    found = plan([small, stage("medium"), stage("large", replace(ONE, count=2))], ONE_NODE, judge)
    settings = heard(composed(found), tmp_path)
    units = {unit.name: unit for unit in (*settings.stages, settings.judge.stage)}
    addresses = {name: [replica.url for replica in unit.replicas] for name, unit in units.items()}
    told = settings_of(found, addresses, "plan", None)
    assert told.judge is not None
    assert told.judge.stage is not None
    assert settings.names == told.names
    for unit in (*told.stages, told.judge.stage):
        assert units[unit.name].replicas == unit.replicas


@pytest.mark.parametrize(
    ("found", "services", "url"),
    [
        (judged("llm", "self-hosted", ONE, model="org/judge"), {"router"}, "http://cascadia-judge-h100"),
        (judged("embedding"), {"router", "judge-service"}, "http://judge-service:8000"),
        (judged("llm", "external", model="gpt"), {"router"}, "http://judged:9"),
    ],
)
def test_the_judge_is_there_too(
    found: Plan, services: set[str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASCADIA_JUDGE_KEY", "secret")
    document = composed(found)
    assert services <= document["services"].keys()
    judge = heard(document, tmp_path).judge
    assert judge.stage.replicas[0].url.startswith(url)
    assert ("judge-service" in document["services"]) == (found.judge.kind == "embedding")


def test_an_api_is_a_stage_whose_key_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTIER_KEY", "secret")
    away = stage("frontier", model="any-name", external=FRONTIER_API)
    document = composed(plan([stage("small", ONE), away], ONE_NODE))
    frontier = heard(document, tmp_path).stages[1]
    assert (frontier.model, frontier.replicas[0].api_key) == ("any-name", "secret")
    assert document["services"]["router"]["environment"] == {"FRONTIER_KEY": "${FRONTIER_KEY:?}"}


def test_a_cascade_of_apis_alone_has_its_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTIER_KEY", "secret")
    document = composed(plan([stage(name, external=FRONTIER_API) for name in ("small", "large")], ONE_NODE))
    assert set(document["services"]) == {"router", "judge-service"}
    assert [one.name for one in heard(document, tmp_path).stages] == ["small", "large"]


def test_engines_of_several_nodes_are_all_there_is() -> None:
    far = Cluster((Pool("h100", "h100-sxm", 2, 1, 2.0),))
    document = composed(plan([stage("small", ONE), stage("large", ONE)], far))
    assert "configs" not in document
    assert "router" not in document["services"]


def test_the_file_is_yaml_that_stays_the_same() -> None:
    found = judged("certainty")
    text = render(found, found.cluster, "compose")
    assert text == render(found, found.cluster, "compose")
    assert yaml.safe_load(text)["name"] == "cascadia"


def test_a_probe_is_refused_since_compose_starts_none() -> None:
    with pytest.raises(BadInput, match="kind probe, and compose starts no probes"):
        composed(judged("probe"))
