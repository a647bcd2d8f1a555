"""How many tokens engines draft is chosen by load, and a plan is never worse for being allowed to."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.controller.speed.as_served import problem_as_started
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.plan import PlanResult, routings_of
from cascadia.planner.refinement.batch_tokens import speculation_of
from cascadia.planner.refinement.drafts import other_drafts
from cascadia.planner.replay.replay import replay
from cascadia.planner.search.context import start_search
from cascadia_sim.iteration.speculation import Speculation
from tests.unit.planner.problems import LARGE, NODE, SMALL, briefly, problem, traffic

pytestmark = pytest.mark.slow

HALF = replace(NODE, gpus_per_node=4)
LAYER = Speculation("eagle3", 4, 0.7, "some/head")


def drafting(p: Problem, speculation: Speculation, engine: str = "vllm") -> Problem:
    stages = tuple(
        replace(
            s,
            engine=engine,  # type: ignore[arg-type]
            config=replace(s.config, speculation=speculation, engine=engine),
            may_draft=speculation,
        )
        for s in p.stages
    )
    return replace(p, stages=stages)


def drafts(found: PlanResult) -> list[int]:
    """The most that each deployed group drafts."""
    groups = [g for s in found.plan.stages for g in s.replicas]
    return [max((tokens for _, _, tokens in g.drafts), default=0) for g in groups]


def test_engines_that_draft_are_told_so_where_the_search_went_on_from_some_that_did_not() -> None:
    """A cheaper plan that drafted was written without, and was slower by a third than it had promised."""
    (served, *_) = drafting(problem(), LAYER).stages
    plain = replace(served, config=replace(served.config, speculation=None))
    drafts_two: Any = [SimpleNamespace(shape=SimpleNamespace(timing=SimpleNamespace(most_drafts=2)))]
    drafts_none: Any = [SimpleNamespace(shape=SimpleNamespace(timing=SimpleNamespace(most_drafts=0)))]
    for stage in (served, plain):
        assert speculation_of(drafts_two, stage, stage.config) == LAYER
        assert speculation_of(drafts_none, stage, stage.config) is None
        fixed = replace(stage.config, engine="sglang")
        assert speculation_of(drafts_two, stage, fixed) == replace(LAYER, tokens=2)


def test_a_search_that_went_on_from_engines_without_drafts_tries_them_again() -> None:
    p = drafting(problem(pools=(HALF,)), LAYER)
    plain = tuple(replace(s, config=replace(s.config, speculation=None)) for s in p.stages)
    with ThreadPoolExecutor(1) as threads:
        search = start_search(replace(p, stages=plain), routings_of(p)[0], threads)
        here = deployment(0, {0: (Replicas(search.shapes[0][0], 1, 1.0),)})
        (found,) = other_drafts(search, here)
    assert found.mix(0)[0].shape.timing.most_drafts == LAYER.tokens


@pytest.mark.long
@pytest.mark.parametrize(
    ("goal", "speculation"),
    [("latency", Speculation("draft_model", 5, 0.2, SMALL)), ("cost", LAYER), ("quality", LAYER)],
)
def test_it_is_never_worse_than_drafting_nothing(goal: str, speculation: Speculation) -> None:
    limit = None if goal == "latency" else 9.0
    objective = Objective(goal, 0.95, 0.0 if goal == "quality" else 52.0, limit)  # type: ignore[arg-type]
    p = problem(trace=traffic(80, 20.0), pools=(HALF,), objective=objective)
    was, now = briefly(p), briefly(drafting(p, speculation))
    key = {
        "latency": lambda r: r.fastest.latency_s,
        "cost": lambda r: r.fastest.usd_per_hour,
        "quality": lambda r: -r.plan.predicted.quality.lower,
    }[goal]
    assert key(now) <= key(was) + 1e-9 * abs(key(was))


@pytest.mark.long
def test_what_is_chosen_is_written_and_replayed(tmp_path: Path) -> None:
    p = drafting(problem(trace=traffic(80, 20.0), pools=(HALF,)), LAYER)
    found = briefly(p)
    assert max(drafts(found)) > 0
    assert (
        found.fastest.latency_s
        < 0.8 * briefly(problem(trace=traffic(80, 20.0), pools=(HALF,))).fastest.latency_s
    )
    write_plan(found.plan, tmp_path / "plan.json")
    read = read_plan(tmp_path / "plan.json")
    again = replay(read, traffic(80, 20.0), folder=tmp_path, table=p.quality)
    assert again.predicted.objective_s == pytest.approx(found.plan.predicted.objective_s, rel=1e-9)
    started = problem_as_started(p, read)
    for stage, by in zip(started.stages, read.stages, strict=True):
        assert (stage.may_draft is None) is by.deployed
        assert stage.config.speculation == (by.config.speculation if by.deployed else LAYER)


@pytest.mark.long
def test_an_engine_with_one_number_for_all_loads_gets_the_one_that_suits_its_load() -> None:
    """A draft that is seldom right: a first token often pays for itself, a fifth never."""
    p = problem((LARGE,), trace=traffic(80, 20.0), pools=(HALF,), objective=Objective("latency", 0.95, 0.0))
    found = briefly(drafting(p, replace(LAYER, tokens=6, acceptance=0.35), "sglang"))
    assert 0 < drafts(found)[0] < 6
