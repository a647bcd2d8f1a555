"""A router is told the same of a plan whoever tells it: `serve --plan`, `PUT /admin/plan`, compose, the chart, the
controller on Kubernetes, and `cascadia up`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cascadia.controller.kubernetes.desired import Serving, kubernetes_plan
from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import Local
from cascadia.controller.local.router_file import _entry, with_replicas
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.objective import Objective, UnderLoad
from cascadia.domain.plan import (
    ExitPlan,
    ExitPromise,
    ForesightPlan,
    JudgePlan,
    LatencyLine,
    Mixture,
    Plan,
    ReplicaGroup,
)
from cascadia.render import render
from cascadia.render.kubernetes.chart_values import merged
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.plans import FRONTIER_API, plan, stage
from cascadia_sim.iteration.engine_config import EngineConfig
from tests.unit.deploy.matrix import CERTAINTY, ELSEWHERE, EMBEDDING, ONE, values_of
from tests.unit.render.manifests import documents

NODE = Cluster((Pool("h100", "h100-sxm", 1, 8, 2.0),))
LINE = LatencyLine(0.125, 0.0005, 0.0225, 0.00008)
MANY = EngineConfig(max_num_seqs=1024)
PAIR = (
    stage(
        "small",
        ReplicaGroup("h100", 1, 1, 1, 0.25, latency=LINE),
        ReplicaGroup("h100", 2, 1, 1, 0.75, latency=LINE),
        config=MANY,
        max_tokens=300,
    ),
    stage("large", ONE),
)
UNEQUAL = JudgePlan(
    *("llm", "self-hosted", "org/judge"),
    engine="vllm", quantization=None, max_model_len=4096, config=MANY,
    replicas=(ReplicaGroup("h100", 1, 1, 1, 0.3), ReplicaGroup("h100", 2, 1, 1, 0.7)),
)  # fmt: skip
TWO = plan(PAIR, NODE, CERTAINTY)
HEADS = ForesightPlan("0" * 64, 0.02)
THINKER = stage("thinker", ONE, exits=(ExitPlan(512, 80.0, 0.4), ExitPlan(2048, 62.5, 0.2, last=True)))
BUDGETS = stage("thinker", ONE, exits=(ExitPlan(64, 80.0, 0.3),), budget_field="thinking_token_budget")
API = stage("frontier", model="any", external=replace(FRONTIER_API, requests_per_minute=600))
PLANS = {
    "two stages": TWO,
    "a judge of unequal replicas": plan(PAIR, NODE, UNEQUAL),
    "an embedding judge": plan(PAIR, NODE, EMBEDDING),
    "a judge elsewhere": plan(PAIR, NODE, ELSEWHERE),
    "a mixture": replace(TWO, mixture=Mixture(0.25, (30.0,), (101.0,))),
    "gears": replace(
        TWO,
        gears=(Gear(24.5, 2.0, ("small", "large"), (40.0,)), Gear(None, None, ("small",), (0.0,))),
        under_load=UnderLoad(80.0, "refuse"),
    ),
    "exits": replace(plan([THINKER, PAIR[1]], NODE, CERTAINTY), exits=ExitPromise(0.01, 0.9, 0.1)),
    "budgets": replace(plan([BUDGETS, PAIR[1]], NODE, UNEQUAL), foresight=HEADS),
    "by the question": replace(plan(PAIR, NODE, EMBEDDING), skip_below=(22.5,)),
    "by heads": replace(plan(PAIR, NODE, UNEQUAL), skip_below=(22.5,), foresight=HEADS),
    "matching": plan([replace(PAIR[0], balancing="matching"), PAIR[1]], NODE, CERTAINTY),
    "earliest finish": replace(
        plan([replace(PAIR[0], balancing="earliest-finish"), PAIR[1]], NODE, CERTAINTY),
        objective=Objective("cost", quality_min=80.0, latency_max_s=12.0),
    ),
    "ranks": plan(
        [stage("small", ReplicaGroup("h100", 4, 1, 1, 1.0), config=replace(MANY, attention_dp=4)), PAIR[1]],
        NODE,
        CERTAINTY,
    ),
    "an API": plan([PAIR[1], API], NODE, CERTAINTY),
    "a stage left out": plan([stage("none"), *PAIR], NODE, CERTAINTY),
    "one stage": plan([PAIR[0]], NODE, CERTAINTY),
}
JUDGED = "http://judged:9"
FORESEES = {"foresight": {"replicas": [{"url": "http://heads:8201"}]}}


def beside(found: Plan) -> dict[str, Any]:
    """Values of the chart for what the plan has elsewhere."""
    values: dict[str, Any] = {"controller": {"enabled": True}}
    if found.foresight is not None:
        values["router"] = {"config": FORESEES}
    return merged(values, {"judge": {"url": JUDGED}} if found.judge.placement == "external" else {})


def addresses(found: Plan) -> dict[str, list[str]]:
    deployed = {each.name: each.replicas for each in found.stages if each.deployed and each.external is None}
    if found.asks_judge and found.judge.replicas:
        deployed["judge"] = found.judge.replicas
    told = {
        name: [f"http://{name}-{at}-{n}" for at, group in enumerate(groups) for n in range(group.count)]
        for name, groups in deployed.items()
    }
    if found.asks_judge and found.judge.kind in ("llm", "embedding"):
        told.setdefault("judge", [JUDGED])
    return told | ({"foresight": ["http://heads:8201"]} if found.foresight is not None else {})


def read(text: str, folder: Path) -> RouterSettings:
    (folder / "router.yaml").write_text(text)
    return read_settings(folder / "router.yaml")


def by_put(found: Plan, _: Path) -> RouterSettings:
    """On a router that serves by another plan of the same replicas."""
    plain = tuple(
        replace(
            each,
            exits=(),
            max_tokens=None,
            balancing="least-outstanding",
            replicas=tuple(replace(group, latency=None) for group in each.replicas),
        )
        for each in found.stages
    )
    before = replace(
        found,
        stages=plain, thresholds=tuple(1.0 for _ in found.thresholds), mixture=None, skip_below=(), gears=(),
        exits=None, under_load=None,
    )  # fmt: skip
    return under_plan(settings_of(before, addresses(before), "plan.json"), found)


def by_compose(found: Plan, folder: Path) -> RouterSettings:
    (document,) = documents(render(found, found.cluster, "compose"))
    text = document["configs"]["router"]["content"]
    asked = "${CASCADIA_JUDGE_URL:?set it to the address of the judge, without /v1}"
    return read(text.replace(asked, JUDGED).replace("$$", "$"), folder)


def by_chart(found: Plan, folder: Path) -> RouterSettings:
    alone = merged(beside(found), {"controller": {"enabled": False}})
    told = documents(render(found, found.cluster, "kubernetes", values=alone))
    (text,) = (each["data"]["router.yaml"] for each in told if "router.yaml" in each.get("data", {}))
    return read(text, folder)


def by_controller(found: Plan, folder: Path) -> RouterSettings:
    """On Kubernetes, with all replicas there."""
    made = kubernetes_plan(
        found, merged(values_of(found), beside(found)), "cascadia", "llm", frozenset({"policy/v1"})
    )
    serving = [
        Serving(kind.stage, each.group["name"], each.capacity_rps)
        for kind, each in made.made.items()
        for _ in range(made.counts[kind])
    ]
    return read(made.router_yaml(serving), folder)


def by_up(found: Plan, folder: Path) -> RouterSettings:
    """On this machine, with all replicas there."""
    judge = {"kind": "llm", "model": "org/judge", "replicas": [{"url": JUDGED}]}
    if found.judge.kind == "embedding":
        judge = {"kind": "embedding", "replicas": [{"url": JUDGED}]}
    elsewhere = found.judge.placement == "external" or found.judge.kind == "embedding"
    router = (FORESEES if found.foresight is not None else {}) | ({"judge": judge} if elsewhere else {})
    made = local_plan(found, Local(router=router))

    def there(name: str) -> list[dict[str, Any]]:
        kinds = [kind for kind in made.launches if kind.stage == name for _ in range(made.counts[kind])]
        at = (SimpleNamespace(url=f"http://{name}-{number}") for number in range(len(kinds)))
        members: list[Any] = [
            SimpleNamespace(launch=made.launches[kind], process=p) for kind, p in zip(kinds, at, strict=True)
        ]
        return [_entry(member) for member in members]

    document = with_replicas(made.router, made.routing.stages, there)
    return read(yaml.safe_dump(json.loads(json.dumps(document))), folder)


WAYS = (by_put, by_compose, by_chart, by_controller, by_up)


def of_replicas(replicas: tuple[ReplicaSettings, ...]) -> dict[str, Any]:
    shares = [each.share for each in replicas]
    return {
        "largest share over the smallest": _rounded(max(shares) / min(shares)),
        "places": {each.max_concurrency for each in replicas},
        "times": {each.latency for each in replicas},
        "kinds": {each.kind for each in replicas},
    }


def of_stage(told: StageSettings, *, last: bool) -> dict[str, Any]:
    """What a plan decides of it, as far as it is in force."""
    named = (
        *("name", "model", "skip_below", "max_model_len", "max_tokens", "balancing", "cost", "price"),
        *("load", "exits", "budget_field", "echoes", "task", "group"),
    )
    return {
        **{name: _rounded(getattr(told, name)) for name in named},
        "promise": told.promise if told.exits else None,
        "threshold": None if last else _rounded(told.threshold),
        "within": None if told.balancing == "least-outstanding" else told.latency_max_s,
        **of_replicas(told.replicas),
    }


def _rounded(told: Any) -> Any:
    return float(f"{told:.4g}") if isinstance(told, float) else told


def of_all(told: RouterSettings) -> dict[str, Any]:
    judge, last = told.judge, len(told.stages) - 1
    found: dict[str, Any] = {
        each.name: of_stage(each, last=at == last) for at, each in enumerate(told.stages)
    }
    if judge is not None:
        found["judge"] = judge.kind, judge.on_failure, judge.scale
        # Of a judge elsewhere, or an embedding judge, no plan says how much it takes.
        if judge.stage is not None and len(judge.stage.replicas) > 1:
            found["judge's replicas"] = of_replicas(judge.stage.replicas)
    return found | {
        "names": told.names or tuple(each.name for each in told.stages),
        "foresight": told.foresight is not None,
        **{
            name: getattr(told, name)
            for name in ("mixture", "gears", "when_overloaded", "cost_unit", "planned")
        },
    }


# Compose starts no heads, and then leaves the router out too.
CASES = [
    pytest.param(name, way, id=f"{name} {way.__name__}")
    for name, found in PLANS.items()
    for way in WAYS
    if way is not by_compose or found.foresight is None
]


@pytest.mark.long(in_ci=20)
@pytest.mark.parametrize(("name", "way"), CASES)
def test_all_tell_the_same_of_a_plan(
    name: str,
    way: Callable[[Plan, Path], RouterSettings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("FRONTIER_KEY", "CASCADIA_JUDGE_KEY", "CASCADIA_SAMPLES_TOKEN"):
        monkeypatch.setenv(variable, "k" * 32)
    found = PLANS[name]
    assert of_all(way(found, tmp_path)) == of_all(settings_of(found, addresses(found), "plan.json"))
