"""Replicas that were chosen for their ladder: never dearer, and both bounds are kept on the whole trace."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster
from cascadia.domain.objective import Objective, UnderLoad
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.gears.placement import (
    LOOKED_AT,
    Placed,
    as_good_on_gears,
    better_than_mixed,
    cheaper_on_gears,
)
from cascadia.planner.gears.played import play
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.state import Candidate, within_limits
from cascadia.planner.routing.routings import Mixed
from tests.unit.planner.gears.test_plan_gears import plan, plan_for_spikes, spiky_problem

pytestmark = pytest.mark.slow

BAR, FLOOR, BOUND_S = 78.0, 50.0, 6.0


@pytest.fixture(scope="module")
def result() -> PlanResult:
    return plan(spiky_problem(objective=Objective("cost", 0.95, BAR, BOUND_S), under_load=UnderLoad(FLOOR)))


@pytest.fixture(scope="module")
def dear(result: PlanResult) -> Candidate:
    """What one setting could not be chosen for is found where what was chosen is told to be dear."""
    return replace(max(result.candidates, key=lambda c: c.usd_per_hour), certificate=None)


@pytest.fixture(scope="module")
def cheapest(result: PlanResult, dear: Candidate) -> Placed:
    found = cheaper_on_gears(result.search, result.candidates, dear, lambda _: None)
    assert found is not None
    return found


@pytest.mark.long
def test_the_cheapest_whose_ladder_keeps_the_bounds_is_taken(
    result: PlanResult, dear: Candidate, cheapest: Placed
) -> None:
    found = cheapest
    assert found.candidate.usd_per_hour < dear.usd_per_hour
    assert found.candidate.usd_per_hour <= result.chosen.usd_per_hour
    certificate, ladder = found.candidate.certificate, found.ladder
    assert certificate is not None
    assert certificate.holds
    decided = [result.search.decisions(k) for k in ladder.routings]
    again = play(certificate.simulator, found.candidate.deployment, decided, ladder.ladder)
    assert (again.gear == ladder.played.gear).all()
    assert np.mean(again.latency_s > BOUND_S) <= 0.05
    lower = result.search.routings.lower[list(ladder.routings)]
    assert lower.min() >= FLOOR
    assert lower[again.gear].mean() >= BAR


@pytest.mark.long
def test_cheap_replicas_of_another_pool_that_are_too_slow_crowd_out_nothing(
    result: PlanResult, dear: Candidate, cheapest: Placed
) -> None:
    alone = cheapest
    (pool,) = result.search.problem.cluster.pools
    d = alone.candidate.deployment

    def slow(level: float) -> Candidate:
        """One replica a stage, at next to no price."""
        mixes = {
            s: (
                replace(
                    mix[0], count=1, level=level, shape=replace(mix[0].shape, pool="other", usd_per_hour=0.01)
                ),
            )
            for s, mix in d.mixes
        }
        return replace(alone.candidate, deployment=deployment(d.routing, mixes), certificate=None)

    cluster = Cluster((pool, replace(pool, name="other")))
    search = replace(result.search, problem=replace(result.search.problem, cluster=cluster))
    crowd = [slow(1.0 + k) for k in range(LOOKED_AT)]
    found = cheaper_on_gears(search, [*crowd, *result.candidates], dear, lambda _: None)
    assert found is not None
    assert found.candidate.usd_per_hour <= alone.candidate.usd_per_hour


@pytest.mark.long
def test_nothing_is_looked_for_beside_other_goals_or_without_gears(result: PlanResult) -> None:
    dear = max(result.candidates, key=lambda c: c.usd_per_hour)
    problem = result.search.problem
    for other in (
        replace(problem, gears=1),
        replace(problem, objective=Objective("quality", 0.95, latency_max_s=BOUND_S)),
    ):
        search = replace(result.search, problem=other)
        assert cheaper_on_gears(search, result.candidates, dear, lambda _: None) is None


@pytest.mark.long
def test_no_mixture_is_taken_since_it_cannot_stand_beside_gears(
    result: PlanResult, dear: Candidate, cheapest: Placed
) -> None:
    plain = result.search.routings
    share = np.zeros(len(plain))
    share[cheapest.candidate.deployment.routing] = 0.5
    mixed = replace(plain, mixed=Mixed(share, replace(plain, mixed=None), plain.reached))
    found = cheaper_on_gears(replace(result.search, routings=mixed), result.candidates, dear, lambda _: None)
    assert found is None or share[found.candidate.deployment.routing] == 0


@pytest.mark.long
def test_the_plan_costs_no_more_than_one_of_one_setting(result: PlanResult) -> None:
    single = plan(replace(result.search.problem, gears=1)).plan.predicted
    assert result.plan.predicted.usd_per_hour <= single.usd_per_hour
    assert result.plan.predicted.objective_s <= BOUND_S
    assert result.plan.predicted.quality.lower >= BAR


@pytest.mark.long
def test_where_quality_is_sought_cheaper_replicas_are_taken_only_if_as_good_on_gears() -> None:
    geared = plan_for_spikes()
    dear, search = geared.fastest, geared.search
    alike = [c for c in geared.candidates if c.quality_lower >= dear.quality_lower]
    cheaper = sorted((c for c in alike if c.usd_per_hour < dear.usd_per_hour), key=lambda c: c.usd_per_hour)
    alone = as_good_on_gears(search, dear, (), lambda _: None)
    found = as_good_on_gears(search, dear, cheaper, lambda _: None)
    assert alone is not None
    assert found is not None
    assert alone.candidate is dear
    assert found.quality_lower >= alone.quality_lower - 1e-9
    assert found.candidate.usd_per_hour <= dear.usd_per_hour
    single = replace(search, problem=replace(search.problem, gears=1))
    assert as_good_on_gears(single, dear, cheaper, lambda _: None) is None


@pytest.mark.long
def test_a_mixture_gives_way_where_the_best_single_routing_is_better_on_gears() -> None:
    """Mixtures have no gears: where one beat the best single setting, gears that beat both were never looked for."""
    geared = plan_for_spikes()
    plain, single = geared.search.routings, geared.chosen
    on_gears = geared.plan.predicted.quality.lower
    assert on_gears > single.quality_lower
    first = next(k for k in range(len(plain)) if all(c.deployment.routing != k for c in geared.candidates))
    share = np.zeros(len(plain))
    share[first] = 0.5
    mixed = replace(plain, mixed=Mixed(share, replace(plain, mixed=None), plain.reached))
    search = replace(geared.search, routings=mixed)

    def beside(lower: float) -> Placed | None:
        d = replace(single.deployment, routing=first)
        mixture = replace(single, deployment=d, quality_lower=lower, certificate=None)
        return better_than_mixed(search, mixture, [mixture, *geared.candidates], lambda _: None)

    found = beside((single.quality_lower + on_gears) / 2)
    assert found is not None
    assert found.candidate.deployment.key == single.deployment.key
    assert found.ladder is not None
    assert found.quality_lower == pytest.approx(on_gears)
    assert beside(on_gears + 0.01) is None
    assert better_than_mixed(search, single, geared.candidates, lambda _: None) is None

    # Its routing is tried on the mixture's own replicas too: of several, some have more room for gears.
    own = 0
    for c in geared.candidates:
        if c.deployment.routing != single.deployment.routing or not within_limits(geared.search.problem, c):
            continue
        mixture = replace(c, deployment=replace(c.deployment, routing=first), quality_lower=0.0)
        found = better_than_mixed(search, mixture, [mixture, single], lambda _: None)
        assert found is not None
        assert found.quality_lower >= on_gears
        if found.candidate.deployment.key != single.deployment.key:
            assert found.candidate.deployment.key == c.deployment.key
            assert found.quality_lower > on_gears
            own += 1
    assert own
