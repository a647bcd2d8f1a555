"""The cheapest of the plans that are about as fast as the fastest, or as good as the best."""

from dataclasses import replace

import pytest

from cascadia.domain.objective import Objective
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.refinement.thrift import cheapest_beside
from cascadia.planner.sensitivity.knee import knee
from tests.unit.planner.problems import FIVE, LARGE, LEAST, NODE, briefly, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow


def planned(within: float, latency_max_s: float | None = None) -> PlanResult:
    """Light traffic on four nodes: far more GPUs than latency has a use for."""
    asked = problem(
        pools=[replace(NODE, nodes=4)],
        trace=traffic(rate_rps=20),
        objective=Objective("latency", 0.95, 52.0, latency_max_s, within=within),
    )
    return briefly(asked)


@pytest.fixture(scope="module")
def thrifty() -> PlanResult:
    return planned(0.03)


@pytest.mark.long
def test_it_is_cheaper_and_no_slower_than_asked(thrifty: PlanResult) -> None:
    predicted, fastest = thrifty.plan.predicted, thrifty.fastest
    assert predicted.usd_per_hour < fastest.usd_per_hour
    assert fastest.latency_s <= predicted.objective_s <= fastest.latency_s * 1.03
    assert any("the fastest plan found takes" in note for note in thrifty.notes)


@pytest.mark.long
def test_a_bound_within_the_tolerance_is_kept(thrifty: PlanResult) -> None:
    bound_s = (thrifty.fastest.latency_s + thrifty.chosen.latency_s) / 2
    assert planned(0.03, bound_s).plan.predicted.objective_s <= bound_s < thrifty.chosen.latency_s


@pytest.mark.long
def test_nothing_that_was_tried_is_as_fast_and_cheaper(thrifty: PlanResult) -> None:
    near = [c for c in thrifty.candidates if c.latency_s <= thrifty.fastest.latency_s * 1.03]
    assert min(c.usd_per_hour for c in near) == thrifty.chosen.usd_per_hour


@pytest.mark.long
def test_what_is_met_holds_and_is_faster_takes_the_place_of_the_fastest(thrifty: PlanResult) -> None:
    chosen, candidates = thrifty.chosen, thrifty.candidates
    assert chosen.latency_s > thrifty.fastest.latency_s
    found = cheapest_beside(
        thrifty.search, thrifty.loop, chosen, candidates, lambda _: None, effort=Effort(simulated_requests=0)
    )
    held = [c for c in found.candidates if c.certificate is not None and c.certificate.holds]
    assert found.best.latency_s == min(c.latency_s for c in held) <= thrifty.fastest.latency_s
    assert found.chosen.latency_s <= found.best.latency_s * 1.03


@pytest.mark.long
def test_a_wider_tolerance_is_never_dearer(thrifty: PlanResult) -> None:
    assert planned(0.2).chosen.usd_per_hour <= thrifty.chosen.usd_per_hour


def test_without_tolerance_the_fastest_is_taken(thrifty: PlanResult) -> None:
    exact = planned(0.0)
    assert exact.chosen is exact.fastest
    assert exact.fastest.deployment.key == thrifty.fastest.deployment.key


def test_a_brief_search_stays_brief_where_cheaper_ones_are_looked_for() -> None:
    """Of 1,555 deployments that were simulated, 1,535 were for those."""
    found = briefly(problem(FIVE[1:4], judge=hosted_judge()), effort=LEAST)
    assert len(found.candidates) < 100


def test_the_knee_is_what_none_beats_in_both(thrifty: PlanResult) -> None:
    points = knee(thrifty)
    dollars, latency = [p.usd_per_hour for p in points], [p.latency_s for p in points]
    assert dollars == sorted(set(dollars))
    assert latency == sorted(set(latency), reverse=True)
    assert sum(p.chosen for p in points) == 1
    assert points[-1].fastest


@pytest.mark.long
def test_ten_times_the_gpus_are_no_worse_and_no_dearer_where_quality_is_sought() -> None:
    asked = Objective("quality", 0.95, latency_max_s=6.0)
    quick = Effort(1, 60, 200, simulated_requests=0, fewest_simulations=4)
    few, many = (
        briefly(
            problem(
                [LARGE], pools=[replace(NODE, nodes=nodes)], trace=traffic(100, rate_rps=10), objective=asked
            ),
            effort=quick,
        )
        for nodes in (1, 10)
    )
    best, more = few.plan.predicted, many.plan.predicted
    assert more.quality.lower >= best.quality.lower == few.fastest.quality_lower
    assert more.usd_per_hour <= best.usd_per_hour < few.fastest.usd_per_hour < many.fastest.usd_per_hour
    assert more.objective_s <= 6.0
    assert any("this one, as good" in note for note in many.notes)
