"""The goal `rate`: the trace played as fast as a plan carries it, within what the budget buys."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner import plan as planning
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.infeasible.nearest import Planning
from cascadia.planner.plan import plan
from cascadia.planner.pool.largest_rate import carried_on, for_a_rate, largest_factor
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.refinement.supersets import Found, best_of_parts, parts
from cascadia.planner.search.context import Search, on_pools
from cascadia.planner.spec.file import check_spec
from cascadia.planner.stability.headroom import PRECISION, largest
from cascadia.planner.stability.repeats import at_rate
from tests.unit.planner.pool.test_budget import CHEAP, offered
from tests.unit.planner.specs import changed

LITTLE = Effort(
    routings=2, combinations=60, window_requests=200, simulated_requests=1000, fewest_simulations=4
)
RATE = Objective("rate", 0.95, 45.0, 12.0)


def asked(budget_usd: float) -> Problem:
    return replace(offered(budget_usd, CHEAP), objective=RATE)


def test_a_plan_for_the_largest_rate_keeps_its_bounds_and_lies_below_what_nothing_passes() -> None:
    made = asked(6.0)
    result = plan(made, effort=LITTLE)
    found = result.plan
    assert found.objective == RATE
    assert found.predicted.e2e.p95_s <= 12.0
    assert found.predicted.quality.lower >= 45.0
    assert found.stability is not None
    assert found.proof.rate_bound_rps is not None
    assert found.predicted.rate_rps <= found.proof.rate_bound_rps
    assert any("is the largest found" in note for note in result.notes)
    assert found.predicted.rate_rps > made.workload.rate_rps


@pytest.mark.long
def test_what_was_found_to_keep_the_bounds_is_the_plan_where_its_own_search_finds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without luck or time there it was once said that no plan was found, after minutes."""

    def without_luck(*arguments: Any, **more: Any) -> Found:
        return replace(best_of_parts(*arguments, **more), best=None)

    monkeypatch.setattr("cascadia.planner.refinement.best.best_of_parts", without_luck)
    made = asked(6.0)
    found = plan(made, effort=LITTLE).plan
    assert found.predicted.rate_rps > made.workload.rate_rps
    assert found.predicted.e2e.p95_s <= 12.0


@pytest.mark.long
def test_a_search_that_was_cut_short_has_not_found_that_there_is_no_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its no was taken for one: of 54 requests/s that could be, a busy machine planned for 1.1."""
    made = asked(6.0)
    whole = plan(made, effort=LITTLE).plan
    now = 0.0
    deadline = Deadline(60.0, clock=lambda: now)

    def cut_short(asking: Callable[..., Planning], *arguments: Any) -> Planning:
        def kept(search: Search) -> None:
            nonlocal now
            now = 50.0

        return replace(asking(*arguments), kept=kept)

    monkeypatch.setattr(planning, "asking", partial(cut_short, planning.asking))
    result = plan(made, effort=LITTLE, deadline=deadline)
    assert result.plan.predicted.rate_rps > whole.predicted.rate_rps / 2
    assert any("the time limit left out" in note and "larger rates" in note for note in result.notes)


def test_maximize_rate_needs_a_bar_on_quality() -> None:
    with pytest.raises(BadInput, match="maximize rate needs a bar on quality; add `quality_min"):
        check_spec(changed("objective", {"maximize": "rate"}), "spec")
    spec = check_spec(
        changed("objective", {"maximize": "rate", "quality_min": 70, "latency_max_s": 9}), "spec"
    )
    assert spec.objective.goal == "rate"


@pytest.mark.parametrize("truth", [0.0, 0.005, 0.02, 1.7, 900.0, 2000.0])
def test_the_largest_rate_is_found_in_few_questions_however_far_the_guess_is(truth: float) -> None:
    """Where nothing held, steps of 6 % once went on until the clock overflowed."""
    asked: list[float] = []

    def holds(factor: float) -> bool:
        asked.append(factor)
        return factor <= truth

    found = largest(holds, 0.0, 1000.0, 940.0, least=0.01)
    assert found == 0.0 if truth < 0.01 else 0.98 * min(truth, 1000.0) <= found <= truth
    assert len(asked) <= 25


@pytest.mark.parametrize(("refused_from", "reached"), [(100.0, 8.0), (3.0, 2.0)])
def test_planning_goes_on_while_a_plan_carries_more_and_keeps_the_last_where_the_next_is_refused(
    refused_from: float, reached: float
) -> None:
    def faster(rate: float, times: float) -> float:
        if rate * times >= refused_from:
            raise Infeasible("that is too fast", "less would do")
        return rate * times

    assert carried_on(1.0, lambda rate: 2.0 if rate < 8.0 else 1.01, faster) == reached


@pytest.mark.long
def test_the_largest_rate_is_the_same_however_fast_the_trace_is() -> None:
    """A trace ten thousand times as fast as anything carries was once put down to too few GPUs."""
    once, fast = (plan(at_rate(asked(6.0), times), effort=LITTLE).plan for times in (1.0, 1e4))
    assert fast.predicted.rate_rps == pytest.approx(once.predicted.rate_rps, rel=3 * PRECISION)


def test_pools_are_searched_by_falling_bound_once_all_have_said_what_they_carry_as_they_are() -> None:
    """One after the other, the time went to the pools that carry the least."""
    made = for_a_rate(replace(offered(24.0), objective=RATE))
    said: list[str] = []

    def names(part: Search) -> str:
        return "+".join(pool.name for pool in part.problem.cluster.pools)

    def carries(part: Search, _: Deployment) -> float:
        said.append(f"{names(part)} carries")
        return 0.0

    def keeps(part: Search, _: float) -> bool:
        said.append(f"{names(part)} searched")
        return False

    with planning.open_search(made) as search:
        each = [part for pools in parts(made.cluster) if (part := on_pools(search, pools)) is not None]
        assert largest_factor(each, keeps, lambda _: None, carries) == 0.0
    order = list(dict.fromkeys(said))
    assert {line.split()[0] for line in order[:3]} == {"dear", "cheap", "dear+cheap"}
    assert order[3:] == ["dear+cheap searched", "dear searched", "cheap searched"]
