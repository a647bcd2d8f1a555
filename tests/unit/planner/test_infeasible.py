"""Where there is no plan the message names what binds, and a nearest value with which there is one."""

import re
from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from tests.unit.planner.problems import FIVE, MEDIUM, hosted_judge, problem, rising_table, traffic


def message(given: Problem) -> str:
    with pytest.raises(Infeasible) as error:
        plan(given)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    return str(error.value)


def named(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def with_bar(given: Problem, quality_min: float) -> Problem:
    return replace(given, objective=replace(given.objective, quality_min=quality_min))


def with_gpus(given: Problem, gpus: int) -> Problem:
    """On one node, or on as many nodes of 8 as it takes."""
    node = given.cluster.pools[0]
    grown = (
        replace(node, nodes=1, gpus_per_node=gpus)
        if gpus <= 8
        else replace(node, nodes=-(-gpus // 8), gpus_per_node=8)
    )
    return replace(given, cluster=Cluster((grown,)))


def small_node(gpu: str = "l40s", gpus: int = 2) -> tuple[Pool, ...]:
    return (Pool("a", gpu, 1, gpus, 2.0),)


def test_a_bar_above_all_models_names_the_best_that_can_be_promised() -> None:
    given = problem(FIVE[2:4], quality_min=95.0)
    text = message(given)
    assert "quality_min 95 is above what any routing of these models reaches" in text
    best = named(r"the best is ([\d.]+) at 95% confidence", text)
    assert plan(with_bar(given, best)).plan.predicted.quality.lower >= best


def test_a_bar_above_all_models_names_what_the_gpus_leave_of_the_best() -> None:
    given = problem((MEDIUM, FIVE[4]), pools=small_node(), trace=traffic(200, 40.0), quality_min=95.0)
    text = message(given)
    sustained = named(r"and with 2 GPUs at [\d.]+ requests/s it is ([\d.]+);", text)
    assert sustained < named(r"the best is ([\d.]+) at", text)
    assert plan(with_bar(given, sustained)).plan.predicted.quality.lower >= sustained


OVERLOADED = [
    problem(FIVE[3:], pools=small_node(), trace=traffic(200, 30.0), quality_min=58.0),
    problem(
        FIVE[1:3], pools=small_node(gpus=4), trace=traffic(200, 60.0), judge=hosted_judge(), quality_min=57.0
    ),
    problem(FIVE[4:], pools=small_node("a100-sxm"), trace=traffic(200, 25.0), quality_min=40.0),
    problem(FIVE[2:], pools=small_node(), trace=traffic(200, 35.0), judge=hosted_judge(), quality_min=57.0),
]


@pytest.mark.parametrize("given", OVERLOADED, ids=range(len(OVERLOADED)))
def test_too_few_gpus_name_a_number_that_is_enough(given: Problem) -> None:
    text = message(given)
    assert f"quality {given.objective.quality_min:g} needs" in text
    gpus = int(named(r"needs >= (\d+) GPUs", text))
    assert gpus > given.cluster.gpus
    found = plan(with_gpus(given, gpus)).plan
    assert found.predicted.quality.lower >= (given.objective.quality_min or 0.0)


@pytest.mark.parametrize("given", OVERLOADED, ids=range(len(OVERLOADED)))
def test_too_few_gpus_name_the_best_quality_that_they_sustain(given: Problem) -> None:
    text = message(given)
    if "no routing at all sustains" in text:
        return
    best = named(r"the best is ([\d.]+)", text)
    assert best < (given.objective.quality_min or 0.0)
    assert plan(with_bar(given, best)).plan.predicted.quality.lower >= best


def test_a_load_that_nothing_sustains_is_said_to_be_one() -> None:
    given = problem(FIVE[4:], pools=small_node("a100-sxm"), trace=traffic(400, 90.0), quality_min=40.0)
    assert re.search(r"with 2 no routing at all sustains [\d.]+ requests/s", message(given))


@pytest.mark.parametrize("goal", ["latency", "cost"])
def test_a_latency_bound_out_of_reach_names_the_lowest_that_was_found(goal: str) -> None:
    given = problem(objective=Objective(goal, 0.95, 52.0, 0.01))  # type: ignore[arg-type]
    text = message(given)
    assert "latency_max_s 0.01 (p95) is below what 8 GPUs reach at quality >= 52" in text
    lowest_s = named(r"the lowest found is ([\d.]+) s", text)
    bound_s = lowest_s * 1.01  # it is told to three digits
    loosened = replace(given, objective=replace(given.objective, latency_max_s=bound_s))
    assert plan(loosened).plan.predicted.objective_s <= bound_s


def test_a_model_that_fits_no_shape_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"stages: s0: the model fits no shape on this cluster .*quantise it"):
        plan(problem(FIVE[4:], pools=small_node("l4", 1), quality_min=40.0))


def test_more_questions_prove_more() -> None:
    few, many = (
        named(
            r"the best is ([\d.]+) at", message(problem(table=rising_table(2, prompts=n), quality_min=95.0))
        )
        for n in (50, 2000)
    )
    assert few < many
