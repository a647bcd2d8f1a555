"""The controller plans anew for models that answer in one pass, with the real planner."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.controller.decide.agreement import check_agreement
from cascadia.controller.decide.prices import GPU_HOUR, SpecPrices
from cascadia.controller.decide.replan import (
    REQUEST,
    RESULT,
    PlanningFailed,
    Replanned,
    Request,
    main,
    read_result,
)
from cascadia.controller.decide.replan import _document as document
from cascadia.controller.local.desired import local_plan
from cascadia.controller.scale.scaler import follows_rate
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import read_plan, write_plan
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace
from tests.unit.cli.commands import run
from tests.unit.planner.policies.one_pass_plans import SPEC, planned, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path)
    plan = planned().plan
    # The shared plan was made elsewhere.
    models = {stage.name: str(tmp_path / "models" / Path(stage.model).name) for stage in plan.stages}
    stages = tuple(replace(stage, model=models[stage.name]) for stage in plan.stages)
    write_plan(replace(plan, stages=stages), tmp_path / "plan.json")
    return tmp_path


def replanned(folder: Path, rate_rps: float, **changed: Any) -> Replanned:
    """As the controller's child does it."""
    arrival_s = np.cumsum(np.random.default_rng(3).exponential(1 / rate_rps, 2000))
    ones = np.ones(2000, np.int64)
    write_trace(Trace(arrival_s, ones, ones), folder / "today.parquet")
    out = folder / f"out-{rate_rps:g}"
    out.mkdir()
    request = Request(
        spec=folder / "guard.yaml",
        trace=folder / "today.parquet",
        rate_rps=rate_rps,
        today=folder / "plan.json",
        gpus={"core": 2},
        out=out,
        headroom=0.05,
    )
    (out / REQUEST).write_text(json.dumps(document(replace(request, **changed))))
    main(str(out))
    assert (out / RESULT).exists()
    return read_result(out)


@pytest.mark.long
def test_less_traffic_takes_fewer_workers_and_more_traffic_more_each_with_policies_for_as_many(
    folder: Path,
) -> None:
    fewer = replanned(folder, 100.0)
    today, candidate = fewer.today.forecast, fewer.candidate.forecast
    assert (today.keeps_bounds, candidate.keeps_bounds) == (True, True)
    assert (today.gpus, candidate.gpus) == ({"core": 2}, {"core": 1})
    assert candidate.loss == pytest.approx(today.loss / 2) == pytest.approx(0.05)
    more = replanned(folder, 350.0, today=fewer.plan)
    today, candidate = more.today.forecast, more.candidate.forecast
    assert not today.keeps_bounds
    assert candidate.keeps_bounds
    for found, workers in ((fewer, 1), (more, 2)):
        plan = read_plan(found.plan)
        assert (plan.gpus, plan.policies[0].workers) == (workers, workers)
        # The fleet counts what is needed by the same names.
        assert {kind.stage for kind in local_plan(plan).counts} == set(found.candidate.need_rps) == {"guard"}
    assert more.candidate.need_rps["guard"] == pytest.approx(350.0, rel=0.01)


@pytest.mark.long
def test_workers_that_are_away_are_not_planned_with_and_without_prices_the_fewest_are_best(
    folder: Path,
) -> None:
    written(folder, SPEC.replace(", usd_per_hour: 0.05", ""))
    found = replanned(folder, 100.0, gpus={"core": 1})
    assert (found.today.forecast.loss, found.candidate.forecast.loss) == (2.0, 1.0)
    assert str(found.candidate.forecast) == "1 in all"
    with pytest.raises(PlanningFailed, match="workers; none are left"):
        replanned(folder, 50.0, gpus={"core": 0})


@pytest.mark.long
def test_a_spec_that_has_another_model_by_now_is_told(folder: Path) -> None:
    written(folder, SPEC.replace("name: tiny", "name: other"))
    with pytest.raises(PlanningFailed, match=r"guard\.yaml: stage other: is not in the plan in force"):
        replanned(folder, 100.0)


def test_replicas_that_share_policies_do_not_follow_the_rate_alone() -> None:
    plan = planned().plan
    assert not follows_rate(plan)
    assert follows_rate(replace(plan, policies=()))


def test_prices_of_workers_are_read_where_the_spec_is_written_anew(folder: Path) -> None:
    assert SpecPrices(folder / "guard.yaml").fresh() == {("core", GPU_HOUR): 0.05}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: tiny", "name: other", "have other stages (other, small, large;"),
        ("models/m-1", "models/m-2", "have other models for tiny"),
        ("kind: core", "kind: gpu", "have other workers (gpu; core)"),
        ("most: 2", "most: 1", "do not fit: there are 1 workers core, the plan takes 2"),
    ],
)
def test_a_spec_of_another_fleet_is_refused_when_the_controller_starts(
    folder: Path, old: str, new: str, said: str
) -> None:
    check_agreement(folder / "guard.yaml", folder / "plan.json")
    written(folder, SPEC.replace(old, new))
    with pytest.raises(BadInput) as told:
        check_agreement(folder / "guard.yaml", folder / "plan.json")
    assert said in str(told.value)


def test_a_cluster_is_refused(folder: Path) -> None:
    arguments = ("guard.yaml", "plan.json")
    done = run("controller", *(str(folder / name) for name in arguments), "--backend", "kubernetes")
    assert done.exit_code == 2
    assert "--backend kubernetes: has no Service for models that answer in one pass" in done.output
