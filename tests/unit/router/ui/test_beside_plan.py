"""The plan's predictions beside what is measured, from the plan to the page's data."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from cascadia.controller.local.desired import local_plan
from cascadia.controller.local.engines_file import Engine, Local
from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.plan import ReplicaGroup
from cascadia.domain.planned import planned_document
from cascadia.render.compose.router_file import router_document
from cascadia.render.engine_groups import engine_groups
from cascadia.render.helm_values import helm_values
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import settings_of, under_plan
from cascadia.router.settings.model import PlannedSettings, PlannedStage
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.beside_plan import Seen, beside_plan
from cascadia.router.ui.history import Window, tick_of
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.plans import FRONTIER_API, NO_JUDGE, plan, stage
from cascadia.testing.routers import ScriptedGate, run, running, stages
from tests.unit.router.ui.test_ui import shown

HERE = Cluster((Pool("h100", "h100-sxm", nodes=1, gpus_per_node=8, usd_per_gpu_hour=2.67),))
PLANNED = PlannedSettings(
    rate_rps=2.0,
    p50_s=1.0,
    p95_s=4.0,
    ttft_p95_s=0.5,
    quality=88.0,
    quality_lower=86.0,
    usd_per_hour=30.0,
    score=80.0,
    stages={
        "small": PlannedStage(1.0, 0.75, 2.0, usd_per_hour=10.0, replicas=2),
        "large": PlannedStage(0.25, 0.25, 6.0, usd_per_hour=20.0, replicas=1),
    },
)


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in rows}


def test_a_running_router_sets_its_plan_beside_what_it_measures() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine("strong")
        gate = ScriptedGate({"weak": 30.0, "fine": 80.0})
        async with (
            started(small, large),
            running(replace(shown(small, large, (1.0, 10.0)), planned=PLANNED), gate) as router,
        ):
            await router.chat()
            small.text = "fine"
            await router.chat()
            # Straight to a stage is not the cascade.
            await router.chat("large")
            state = (await router.client.get("/ui/state?window=all")).json()
        rows = by_name(state["beside_plan"])
        assert (rows["small answers"]["planned"], rows["small answers"]["measured"]) == (0.75, 0.5)
        assert rows["large answers"]["measured"] == 0.5
        assert rows["p95"]["planned"] == 4.0
        assert 0 < rows["p95"]["measured"] < 4.0
        assert rows["requests"]["measured"] == pytest.approx(2 / state["window_s"], rel=0.2)
        # One replica of the two that were planned, at their price; all of the other stage.
        assert rows["dollars an hour"] == {**rows["dollars an hour"], "planned": 30.0, "measured": 25.0}
        # No shadow evaluation has told a score.
        assert rows["judge's score of the answers given"]["measured"] is None

    run(main)


def test_without_a_plan_nothing_is_set_beside() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            assert (await router.client.get("/ui/state")).json()["beside_plan"] is None

    run(main)


def test_scores_are_those_that_the_thresholds_would_give_and_apis_cost_what_they_were_sent() -> None:
    class Api:
        def __init__(self, name: str, threshold: float, price: tuple[float, float] | None) -> None:
            self.name = name
            self.settings = replace(
                stages(FakeEngine())[0], name=name, threshold=threshold, price=price, replicas=()
            )

    metrics = Metrics()
    before = tick_of(metrics, 0.0)
    metrics.tokens.labels("api", "input").inc(1_000_000)
    metrics.tokens.labels("api", "output").inc(100_000)
    window = Window(before, tick_of(metrics, 60.0))
    told = replace(
        PLANNED,
        stages={"small": PLANNED.stages["small"], "api": PlannedStage(0.25, 0.25, 2.0)},
        judge=PlannedStage(1.0, 0.0, 0.1, usd_per_hour=4.0, replicas=2),
    )
    named: Any = [Api("small", 50.0, None), Api("api", 0.0, (2.0, 10.0))]
    seen = Seen(window, {"small": 1, "judge": 2}, [[60.0, 90.0], [40.0, 90.0]])
    rows = by_name(beside_plan(told, named, "cascadia", metrics, seen))
    score = rows["judge's score of the answers given"]
    assert (score["measured"], score["off"]) == (75.0, pytest.approx(30.0))
    # Half of the small stage, the whole judge, and $3 a minute.
    assert rows["dollars an hour"]["measured"] == pytest.approx(5.0 + 4.0 + 180.0)
    assert rows["p95"]["measured"] is None
    assert rows["small answers"]["measured"] is None


def test_a_plan_tells_every_router_file_the_same_and_settings_read_it(tmp_path: Any) -> None:
    planned = plan(
        [
            stage("small", ReplicaGroup("h100", 1, 1, 2, 1.0)),
            stage("frontier", model="any", engine="external", external=FRONTIER_API),
        ],
        HERE,
        replace(NO_JUDGE, kind="certainty"),
    )
    planned = replace(planned, predicted=replace(planned.predicted, score_mean=81.5))
    told = planned_document(planned)["planned"]
    small = {"reached": 1.0, "answered": 0.5, "p95_s": 8.0, "usd_per_hour": 5.34, "replicas": 2}
    assert told["stages"]["small"] == small
    assert told["stages"]["frontier"]["replicas"] == 0
    assert (told["p95_s"], told["score"], told["quality_lower"]) == (10.0, 81.5, 85.1)
    engines = {"small": Engine(command=["engine", "{port}"])}
    assert local_plan(planned, Local(stages=engines)).router["planned"] == told
    assert helm_values(planned, engine_groups(planned, HERE))["cascade"]["planned"] == told
    document = router_document(planned, {"small": ["http://h:1", "http://h:2"]}, None, 8000)
    assert document["planned"] == told
    path = tmp_path / "router.yaml"
    path.write_text(yaml.safe_dump({**document, "judge": {"kind": "certainty"}}), encoding="utf-8")
    read = read_settings(path, {"FRONTIER_KEY": "k"})
    direct = settings_of(planned, {"small": ["http://h:1"], "frontier": ["https://a"]}, "plan", None)
    assert read.planned == direct.planned
    assert under_plan(replace(read, planned=None), planned).planned == read.planned
