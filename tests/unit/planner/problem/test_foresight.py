"""Plans that may decide by the question alone: never worse than a pre-router with the same foresight."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Foresight, Problem
from cascadia.domain.quality import QualityTable
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.baselines.prerouter import prerouter
from cascadia.planner.baselines.single_model import searched
from cascadia.planner.plan import routings_of
from cascadia.planner.problem.foresight import with_foresight
from cascadia.planner.problem.read import read_problem
from cascadia.planner.replay.replay import gate_decisions
from cascadia.planner.routing.preroutings import by_question_alone
from cascadia.planner.search.context import start_search
from cascadia_judge import foresight
from tests.unit.planner.problems import (
    LARGE,
    MEDIUM,
    SHORT,
    SMALL,
    briefly,
    hosted_judge,
    problem,
    rising_table,
    traffic,
)
from tests.unit.planner.routing.random_tables import beaten_left_out, random_table
from tests.unit.planner.specs import STAGES, valid_spec, write_inputs, write_spec

pytestmark = pytest.mark.slow


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def foreseeing(stages: int, skill: float) -> QualityTable:
    """Scores say nothing; what is foreseen does, the more the skill."""
    table = rising_table(stages)
    rng = np.random.default_rng(4)
    noise = rng.normal(50, 25, table.quality.shape)
    foreseen = np.round(np.clip(skill * table.quality + (1 - skill) * noise, 0, 100))
    return replace(table, score=np.round(rng.uniform(0, 100, table.score.shape), -1), foreseen=foreseen)


def given(models: tuple[str, ...], skill: float) -> Problem:
    found = problem(
        models, judge=hosted_judge(), table=foreseeing(len(models), skill), trace=traffic(1_200, 60.0)
    )
    return replace(found, foresight=Foresight("d" * 64))


@pytest.mark.parametrize(("stages", "seed"), [(2, 0), (2, 1), (3, 0), (3, 1)])
def test_routings_by_the_question_alone_are_what_brute_force_finds(stages: int, seed: int) -> None:
    table = random_table(stages, 9, seed, levels=4)
    table = replace(table, foreseen=np.round(np.clip(table.score, 0, 100) / 25) * 25)
    assert table.foreseen is not None
    points = set()
    for size in range(2, stages + 1):
        for subset in combinations(range(stages), size):
            for levels in product(*(np.unique(table.foreseen[s])[1:] for s in subset[:-1])):
                answered = np.full(9, subset[-1])
                for stage, level in reversed(list(zip(subset, levels, strict=False))):
                    answered[table.foreseen[stage] >= level] = stage
                share = [round(float((answered == s).mean()), 6) for s in range(stages)]
                mean = round(float(table.quality[answered, np.arange(9)].mean()), 6)
                points.add((*share, mean))
    found = by_question_alone(table)
    kept = {
        (*(round(float(r), 6) for r in reached), round(float(mean), 6))
        for reached, mean in zip(found.reached, found.mean, strict=True)
    }
    assert kept == beaten_left_out(points)


@pytest.mark.long
@pytest.mark.parametrize("skill", [0.8])
def test_a_plan_is_no_slower_than_a_pre_router_with_the_same_foresight(
    skill: float, threads: ThreadPoolExecutor
) -> None:
    for models in ((SMALL, LARGE), (SMALL, MEDIUM, LARGE)):
        known = given(models, skill)
        search = start_search(known, routings_of(known)[0], threads)
        ours, theirs = searched("cascadia", search, SHORT).best, prerouter(search, SHORT).best
        assert ours is not None
        # The pre-router looks at questions for nothing; a plan is charged for it.
        assert (
            theirs is None
            or ours.latency_s <= theirs.latency_s + known.foresight_s + 0.005 * theirs.latency_s
        )


@cache
def told_all() -> Plan:
    return briefly(given((SMALL, LARGE), 0.9)).plan


def test_where_the_question_tells_all_and_the_score_nothing_there_is_no_judge() -> None:
    made = told_all()
    back = parse_plan(plan_json(made), "plan.json")
    assert back == made
    assert back.skip_below[0] > 0
    assert back.thresholds[0] == 0
    assert not back.judges
    assert back.judge.gpus == 0
    assert back.foresight is not None
    assert back.foresight.digest == "d" * 64


def test_drawn_paths_of_such_a_plan_are_as_predicted() -> None:
    from cascadia.planner.replay.replay import drawn_table

    made = told_all()
    drawn = drawn_table(made, seed=1)
    decided = gate_decisions(made, drawn, np.arange(len(drawn)), drawn=True)
    assert not decided.judged.any()
    assert decided.reached[0].mean() == pytest.approx(made.predicted.stages[0].reached, abs=0.03)


def test_a_file_that_lacks_a_prompt_or_a_stage_is_refused_and_else_values_go_to_their_prompts(
    tmp_path: Path,
) -> None:
    table = rising_table(2, prompts=6)
    values = np.arange(12.0).reshape(2, 6)
    turned = foresight.Foreseen(tuple(reversed(table.prompt_ids)), ("s1", "s0"), values)

    def written(found: foresight.Foreseen) -> Path:
        import json

        (file := tmp_path / "foresight.json").write_text(json.dumps({"foreseen": foresight.written(found)}))
        return file

    known, told = with_foresight(table, written(turned))
    assert known.foreseen is not None
    assert known.foreseen.tolist() == [values[1][::-1].tolist(), values[0][::-1].tolist()]
    assert len(told.digest) == 64
    with pytest.raises(BadInput, match="does not know 1 of the table's 6 prompts"):
        with_foresight(table, written(foresight.Foreseen(table.prompt_ids[1:], ("s0", "s1"), values[:, 1:])))
    with pytest.raises(BadInput, match="foresees nothing of stage 's1'"):
        with_foresight(table, written(foresight.Foreseen(table.prompt_ids, ("s0",), values[:1])))


@pytest.mark.parametrize("asks", [{"exits_by": "question"}, {"foreseen": 70}])
@pytest.mark.parametrize("kind", ["llm", "external", "certainty", "embedding"])
def test_exits_that_the_question_decides_about_need_somebody_who_looks_at_it(
    kind: str, asks: dict[str, object], tmp_path: Path
) -> None:
    """A column `foreseen` plans with them, and no router knows it: that was told after the search, or never."""
    write_inputs(tmp_path)
    table = ["prompt_id,stage,score,input_tokens,output_tokens,foreseen"]
    for name in ("small", "small@9", *STAGES[1:]):
        table += [f"p{i},{name},{50 + i},100,60,{40 + i}" for i in range(20)]
    (tmp_path / "quality.csv").write_text("\n".join(table))
    document = valid_spec()
    first = {name: value for name, value in asks.items() if name == "foreseen"}
    document["stages"][0]["exits"] = [{"thinking_tokens": 9, **first}]
    document["stages"][0] |= {name: value for name, value in asks.items() if name != "foreseen"}
    if kind != "llm":
        document["judge"] = {"kind": kind}
    path = write_spec(tmp_path, document)
    if kind == "embedding":
        assert read_problem(path).points is not None
        return
    with pytest.raises(
        BadInput, match=r"stages\[0\].exits: are chosen by the question.* add quality.foresight"
    ):
        read_problem(path)
