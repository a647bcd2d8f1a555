"""Where there is no plan the message names what binds, and a nearest value with which there is one."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.columns import allocate
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.infeasible import nearest
from cascadia.planner.infeasible.nearest import MOST_KEPT, MOST_SUSTAINED, rounded_down
from cascadia.planner.plan import plan, routings_of
from cascadia.planner.search.context import allowed, start_search
from cascadia.planner.stability.certificate import certify
from tests.unit.planner.problems import (
    FIVE,
    MEDIUM,
    briefly,
    hosted_judge,
    problem,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow


class Refusal(NamedTuple):
    """What is said, and how often a plan of something else was asked for before that."""

    text: str
    replans: int


@cache
def refusal(given: Problem) -> Refusal:
    """Asked for once of a problem that several tests ask about: a problem is equal to itself only."""
    told: list[str] = []
    with pytest.raises(Infeasible) as error:
        briefly(given, progress=told.append)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    return Refusal(str(error.value), sum(text.startswith("is there a plan") for text in told))


def message(given: Problem) -> str:
    return refusal(given).text


def named(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def with_bar(given: Problem, quality_min: float) -> Problem:
    return replace(given, objective=replace(given.objective, quality_min=quality_min))


def with_pools(given: Problem, *pools: Pool) -> Problem:
    return replace(given, cluster=Cluster(pools))


def named_pool(given: Problem, text: str) -> Pool:
    """The pool that a refusal asks for."""
    found = re.search(r"needs >= (\d+) GPUs (?:in pool (\w+) )?\((?:(\d+) nodes of (\d+)|on one node)", text)
    assert found, text
    pool = given.cluster.pool(found[2]) if found[2] else given.cluster.pools[0]
    nodes, per_node = (int(found[3]), int(found[4])) if found[3] else (1, int(found[1]))
    assert nodes * per_node == int(found[1])
    return replace(pool, nodes=nodes, gpus_per_node=per_node)


def in_place(given: Problem, size: Pool) -> Problem:
    return with_pools(given, *(size if p.name == size.name else p for p in given.cluster.pools))


def smaller(pool: Pool) -> Pool:
    """By one GPU on a single node, by one node on several."""
    if pool.nodes == 1:
        return replace(pool, gpus_per_node=pool.gpus_per_node - 1)
    return replace(pool, nodes=pool.nodes - 1)


def sustained_by_any(given: Problem) -> bool:
    """Has any routing at the bar an allocation by tables of its own that holds? Found without the planner's search."""
    simulator = Simulator.of(given)
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        for k in np.flatnonzero(allowed(search)).tolist():
            found = allocate(search.demands(k), given.cluster, verdict_s=search.verdict_s, prove=False)
            if found is not None:
                chosen, decided = deployment(k, dict(found.replicas)), search.decisions(k)
                shares = search.capacities.shares(given, chosen, decided)
                if certify(simulator, chosen, decided, shares).holds:
                    return True
    return False


def small_node(gpu: str = "l40s", gpus: int = 2) -> tuple[Pool, ...]:
    return (Pool("a", gpu, 1, gpus, 2.0),)


def test_a_bar_above_all_models_names_the_best_that_can_be_promised() -> None:
    given = problem(FIVE[2:4], quality_min=95.0)
    text = message(given)
    assert "quality_min 95 is above what any routing of these models reaches" in text
    best = named(r"the best is ([\d.]+) at 95% confidence", text)
    assert briefly(with_bar(given, best)).plan.predicted.quality.lower >= best


def test_so_it_does_where_a_hosted_judge_keeps_up_with_no_part_of_what_comes() -> None:
    """All requests within a millisecond: the judge's table has no level that any of its replicas keeps."""
    at_once = traffic(100, 200_000.0)
    text = message(problem(FIVE[1:3], judge=hosted_judge(), trace=at_once, quality_min=95.0))
    assert "the best is" in text
    assert "no routing at all sustains" in text


def test_the_confidence_that_is_told_is_never_rounded_up() -> None:
    given = problem(FIVE[2:3], pools=small_node(), trace=traffic(60, 1.0), quality_min=99.0)
    assert "at 99.8% confidence" in message(replace(given, confidence=0.998))


def test_a_bar_above_all_models_names_what_the_gpus_leave_of_the_best() -> None:
    given = problem((MEDIUM, FIVE[4]), pools=small_node(), trace=traffic(200, 20.0), quality_min=95.0)
    text = message(given)
    sustained = named(r"and with 2 GPUs at [\d.]+ requests/s it is ([\d.]+);", text)
    assert sustained < named(r"the best is ([\d.]+) at", text)
    assert briefly(with_bar(given, sustained)).plan.predicted.quality.lower >= sustained


OVERLOADED = {
    "one model": problem(FIVE[4:], pools=small_node("a100-sxm"), trace=traffic(200, 50.0), quality_min=40.0),
    "three stages": problem(
        FIVE[2:], pools=small_node(), trace=traffic(200, 35.0), judge=hosted_judge(), quality_min=57.0
    ),
}
LATE = replace(
    OVERLOADED["one model"], objective=Objective("latency", 0.95, quality_min=40.0, latency_max_s=0.01)
)
"""No number of GPUs keeps its bound."""
FURTHER = {
    "two stages": problem(FIVE[3:], pools=small_node(), trace=traffic(200, 30.0), quality_min=58.0),
    "a judge on GPUs": problem(
        FIVE[1:3],
        pools=small_node(gpus=4),
        trace=traffic(200, 200.0),
        judge=hosted_judge(),
        quality_min=57.0,
    ),
    "three nodes": problem(
        FIVE[2:],
        pools=(Pool("a", "l40s", 3, 2, 2.0),),
        trace=traffic(200, 90.0),
        judge=hosted_judge(),
        quality_min=60.0,
    ),
    "two pools": problem(
        FIVE[2:4],
        pools=(Pool("a", "l40s", 1, 2, 2.0), Pool("b", "a100-sxm", 2, 1, 3.0)),
        trace=traffic(200, 240.0),
        quality_min=60.0,
    ),
}
"""As `OVERLOADED`; they take long, and are asked about in tests/e2e/test_plans_at_length.py."""
overloaded = pytest.mark.parametrize("given", OVERLOADED.values(), ids=OVERLOADED)


@pytest.mark.long(in_ci=1)
@overloaded
def test_too_few_gpus_name_a_number_that_is_enough(given: Problem) -> None:
    text = message(given)
    assert f"quality {given.objective.quality_min:g} needs" in text
    enough = named_pool(given, text)
    assert enough.gpus > given.cluster.pool(enough.name).gpus
    found = briefly(in_place(given, enough)).plan
    assert found.predicted.quality.lower >= (given.objective.quality_min or 0.0)


@pytest.mark.long(in_ci=1)
@overloaded
def test_a_refusal_asks_for_few_plans(given: Problem) -> None:
    """For GPUs of each pool, for quality and for the rate."""
    things = len(given.cluster.pools) + 2
    assert 0 < refusal(given).replans <= MOST_SUSTAINED * things


@pytest.mark.long
def test_so_does_one_of_a_latency_bound_that_no_number_of_gpus_keeps() -> None:
    assert 0 < refusal(LATE).replans <= (MOST_SUSTAINED + MOST_KEPT) * 3


@pytest.mark.long(in_ci=1)
@overloaded
def test_the_number_of_gpus_named_is_the_least(given: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one less (a node less, on several) there is no plan, and a tenth more traffic nothing sustains, whatever the
    search may have missed: of what only just holds it may miss some (docs/models/planner.md)."""
    fewer = in_place(given, smaller(named_pool(given, message(given))))
    more = replace(fewer.workload, arrival_s=fewer.workload.arrival_s / 1.1)
    assert not sustained_by_any(replace(fewer, workload=more))
    monkeypatch.setattr(nearest, "MOST_SUSTAINED", 1)  # the explanation is not looked at
    with pytest.raises(Infeasible):
        plan(fewer)


@pytest.mark.long(in_ci=1)
@overloaded
def test_too_few_gpus_name_the_best_quality_that_they_sustain(given: Problem) -> None:
    text = message(given)
    bars = sorted({rounded_down(q) for q in routings_of(given)[0].lower.tolist()})
    if "no routing at all sustains" in text:
        assert not sustained_by_any(with_bar(given, bars[0]))
        return
    best = named(r"the best is ([\d.]+)", text)
    assert best < (given.objective.quality_min or 0.0)
    assert briefly(with_bar(given, best)).plan.predicted.quality.lower >= best
    assert not sustained_by_any(with_bar(given, bars[bars.index(best) + 1]))


@pytest.mark.long
def test_where_no_number_of_gpus_keeps_the_latency_bound_that_is_said() -> None:
    text = message(LATE)
    assert named(r"for latency_max_s 0.01 \(p95\) more than (\d+),", text) == 32
    unbounded = in_place(OVERLOADED["one model"], named_pool(LATE, text))
    assert briefly(unbounded).plan.predicted.objective_s > 0.01


@pytest.mark.long
def test_without_a_bar_any_plan_needs_more_gpus() -> None:
    given = problem(
        FIVE[4:],
        pools=small_node("a100-sxm"),
        trace=traffic(200, 50.0),
        objective=Objective("latency", 0.95),
    )
    text = message(given)
    assert "any plan needs >= 16 GPUs (2 nodes of 8)" in text
    assert briefly(in_place(given, named_pool(given, text))).plan.stages[0].gpus <= 16


def test_a_load_that_nothing_sustains_is_said_to_be_one() -> None:
    given = problem(FIVE[4:], pools=small_node("a100-sxm"), trace=traffic(400, 90.0), quality_min=40.0)
    assert re.search(r"with 2 no routing at all sustains [\d.]+ requests/s", message(given))


@pytest.mark.long
@pytest.mark.parametrize("goal", ["cost", "latency"])
def test_a_latency_bound_out_of_reach_names_the_lowest_that_was_found(goal: str) -> None:
    given = problem(objective=Objective(goal, 0.95, 52.0, 0.01))  # type: ignore[arg-type]
    text = message(given)
    assert "latency_max_s 0.01 (p95) is below what 8 GPUs reach at quality >= 52" in text
    lowest_s = named(r"the lowest found is ([\d.]+) s", text)
    loosened = replace(given, objective=replace(given.objective, latency_max_s=lowest_s))
    assert briefly(loosened).plan.predicted.objective_s <= lowest_s


def test_a_model_that_needs_more_memory_names_gpus_that_hold_it() -> None:
    given = problem(FIVE[3:4], pools=small_node("l4", 1), trace=traffic(60, 0.2), quality_min=40.0)
    text = message(given)
    assert "stages: s0: the model fits no shape on this cluster (memory: " in text
    gpus = named(r"a replica fits on (\d+) GPUs of pool a \(on one node\)", text)
    assert briefly(with_pools(given, *small_node("l4", int(gpus)))).plan.gpus <= gpus
    with pytest.raises(Infeasible, match="the model fits no shape"):
        plan(with_pools(given, *small_node("l4", int(gpus) - 1)))


def test_a_model_that_no_number_of_such_gpus_holds_is_bad_input() -> None:
    huge = problem(("moonshotai/Kimi-K2-Instruct",), pools=small_node("t4", 1), quality_min=40.0)
    with pytest.raises(BadInput, match=r"stages: s0: the model fits no shape on this cluster .*quantise it"):
        plan(huge)


def test_more_questions_prove_more() -> None:
    few, many = (
        named(
            r"the best is ([\d.]+) at", message(problem(table=rising_table(2, prompts=n), quality_min=95.0))
        )
        for n in (50, 2000)
    )
    assert few < many
