"""Planning anew happens in a process of its own: with the real planner, a limit on its time, and errors in one line."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.controller.decide.replan import REQUEST, PlanningFailed, Request, main, read_result, replan
from cascadia.controller.decide.replan import _document as document
from cascadia.files.plan_file import read_plan
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace
from tests.unit.cli.commands import run
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec


@pytest.fixture(scope="module")
def request_of_today(tmp_path_factory: pytest.TempPathFactory) -> Request:
    """A spec, a plan in force for it, and 300 requests of today."""
    folder = tmp_path_factory.mktemp("replan")
    write_inputs(folder)
    write_spec(folder, valid_spec())
    done = run("plan", str(folder / "cascade.yaml"), "--out", str(folder / "plan"), "--no-report")
    assert done.exit_code == 0, done.output
    rng = np.random.default_rng(4)
    tokens = rng.integers(50, 400, (2, 300))
    write_trace(Trace(np.sort(rng.uniform(0, 100, 300)), tokens[0], tokens[1]), folder / "today.parquet")
    today = read_plan(folder / "plan")
    return Request(
        spec=folder / "cascade.yaml",
        trace=folder / "today.parquet",
        rate_rps=3.0,
        today=folder / "plan" / "plan.json",
        gpus={pool.name: pool.gpus for pool in today.cluster.pools},
        out=folder / "out",
    )


def test_both_plans_are_simulated_on_todays_requests(request_of_today: Request) -> None:
    found = asyncio.run(replan(request_of_today, 200.0))
    plan = read_plan(found.plan)
    assert found.candidate.forecast.keeps_bounds
    assert 0 < found.candidate.forecast.loss <= found.today.forecast.loss * 1.001
    assert sum(found.candidate.forecast.gpus.values()) == plan.gpus
    deployed = {stage.name for stage in plan.stages if stage.deployed}
    assert {name for name, rps in found.candidate.need_rps.items() if rps > 0} - {"judge"} == deployed
    entry = next(stage.name for stage in plan.stages if stage.deployed)
    assert found.candidate.need_rps[entry] == pytest.approx(3.0, rel=0.05)


def test_it_plans_for_the_gpus_that_there_are(request_of_today: Request) -> None:
    (pool, count), *_ = request_of_today.gpus.items()
    fewer = replace(
        request_of_today, gpus={pool: count // 2}, rate_rps=0.5, out=request_of_today.out.with_name("fewer")
    )
    found = asyncio.run(replan(fewer, 200.0))
    assert found.candidate.forecast.gpus[pool] <= count // 2


def test_where_latency_is_bounded_the_plan_has_room_for_more_than_came(request_of_today: Request) -> None:
    folder = request_of_today.spec.parent
    bounded = valid_spec() | {"objective": {"minimize": "cost", "quality_min": 60, "latency_max_s": 60}}
    spec = write_spec(folder, bounded).rename(folder / "bounded.yaml")
    write_spec(folder, valid_spec())
    roomy = replace(request_of_today, spec=spec, headroom=0.2, out=folder / "roomy")
    found = asyncio.run(replan(roomy, 200.0))
    plan = read_plan(found.plan)
    entry = next(stage.name for stage in plan.stages if stage.deployed)
    assert plan.predicted.rate_rps == pytest.approx(3.6, rel=0.05)
    assert found.candidate.need_rps[entry] == pytest.approx(3.0, rel=0.05)


def test_both_plans_cost_what_the_spec_says_now(request_of_today: Request) -> None:
    folder = request_of_today.spec.parent
    cheapest = {"objective": {"minimize": "cost", "quality_min": 60}}
    spent = []
    for factor in (1.0, 3.0):
        document = valid_spec() | cheapest
        for pool in document["cluster"]["pools"]:
            pool["usd_per_gpu_hour"] = 2.0 * factor
        spec = write_spec(folder, document).rename(folder / f"at-{factor:g}.yaml")
        plan = folder / f"cheap-{factor:g}"
        done = run("plan", str(spec), "--out", str(plan), "--no-report")
        assert done.exit_code == 0, done.output
        today = folder / "cheap-1" / "plan.json"
        asked = replace(request_of_today, spec=spec, today=today, out=folder / f"priced-{factor:g}")
        spent.append(asyncio.run(replan(asked, 200.0)))
    write_spec(folder, valid_spec())
    assert spent[1].today.forecast.loss == pytest.approx(3.0 * spent[0].today.forecast.loss)
    assert spent[1].candidate.forecast.loss == pytest.approx(3.0 * spent[0].candidate.forecast.loss)


def test_planning_that_takes_too_long_is_ended(request_of_today: Request) -> None:
    late = replace(request_of_today, out=request_of_today.out.with_name("late"))
    with pytest.raises(PlanningFailed, match=r"planning took longer than 0\.01 s"):
        asyncio.run(replan(late, 0.01))


def test_planning_takes_what_it_has_found_when_most_of_its_time_is_over(request_of_today: Request) -> None:
    hurried = replace(request_of_today, out=request_of_today.out.parent / "hurried", time_limit_s=1e-6)
    hurried.out.mkdir()
    (hurried.out / REQUEST).write_text(json.dumps(document(hurried)))
    main(str(hurried.out))
    found = read_plan(read_result(hurried.out).plan)
    assert found.headroom is None  # is left out where time is over


def test_what_planning_cannot_do_it_says_in_one_line(request_of_today: Request, tmp_path: Path) -> None:
    broken = replace(request_of_today, today=tmp_path / "none.json", out=tmp_path / "broken")
    with pytest.raises(PlanningFailed, match=r"none\.json"):
        asyncio.run(replan(broken, 200.0))
    (tmp_path / "cascade.yaml").write_text("stages: 7\n")
    nonsense = replace(request_of_today, spec=tmp_path / "cascade.yaml", out=tmp_path / "nonsense")
    with pytest.raises(PlanningFailed, match=r"cascade\.yaml"):
        asyncio.run(replan(nonsense, 200.0))
