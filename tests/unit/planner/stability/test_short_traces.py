"""A trace that is over before any queue shows: its plan is no dearer by more than what is not known of it."""

from dataclasses import replace

import pytest

from cascadia.domain.objective import Objective
from cascadia.planner.plan import PlanResult
from tests.unit.planner.problems import MEDIUM, NODE, SMALL, briefly, problem, traffic

REQUESTS, SETTLES_RPS, SLOW_RPS, FAST_RPS = 20, 40.0, 400.0, 3000.0
TWICE = 2.0


def planned(rate_rps: float) -> PlanResult:
    objective = Objective("cost", quantile=0.95, latency_max_s=6.0, quality_min=40.0)
    given = problem(
        (SMALL, MEDIUM),
        pools=(replace(NODE, nodes=40),),
        objective=objective,
        quality_min=40.0,
        trace=traffic(REQUESTS, rate_rps),
    )
    return briefly(given)


@pytest.mark.long
def test_so_many_times_the_rate_costs_no_more_than_twice_as_many_times_as_much() -> None:
    slow, fast = planned(SLOW_RPS), planned(FAST_RPS)
    times = fast.plan.predicted.usd_per_hour / slow.plan.predicted.usd_per_hour
    assert times <= TWICE * FAST_RPS / SLOW_RPS


@pytest.mark.long
def test_a_plan_of_rounds_that_do_not_settle_says_so_and_how_many_requests_would_do() -> None:
    fast = planned(FAST_RPS)
    (note,) = [n for n in fast.notes if n.startswith("the trace spans")]
    assert "they don't settle either" in note
    wanted = int(note.split("; ")[-1].split()[0].replace(",", ""))
    span_s = wanted / fast.plan.predicted.rate_rps
    assert 3.5 * fast.plan.predicted.objective_s <= span_s <= 4.5 * fast.plan.predicted.objective_s


@pytest.mark.long
def test_a_plan_of_rounds_that_settle_says_only_how_many_requests_would_do() -> None:
    (note,) = [n for n in planned(SETTLES_RPS).notes if n.startswith("the trace spans")]
    assert "settle either" not in note
