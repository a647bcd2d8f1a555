"""Under a bar, the routings that need the least go first: what lies beyond the bar counts for nothing."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import routings_of
from cascadia.planner.refinement.shortlist import by_score, light
from cascadia.planner.routing.dominance import lightest
from cascadia.planner.search import bilevel
from cascadia.planner.search.bilevel import BilevelResult
from cascadia.planner.search.context import Search, allowed, start_search
from cascadia.planner.search.reference_tables import References
from tests.unit.planner.problems import LARGE, MEDIUM, ON_ROUTER, SMALL, problem

pytestmark = pytest.mark.slow


def search_of(given: Problem, threads: ThreadPoolExecutor) -> Search:
    return start_search(given, routings_of(given)[0], threads)


def chosen(given: Problem, most: int) -> tuple[Search, list[int]]:
    """The short list where all routings have the same price, as they do within a step of the prices' grid."""
    with ThreadPoolExecutor(2) as threads:
        search = search_of(given, threads)
        loop = BilevelResult((), np.ones(len(search.routings)), References(search))
        return search, by_score(search, loop, most)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=30),
)
def test_the_lightest_are_those_than_which_no_other_has_less_of_any_load(
    points: list[tuple[int, int, bool]],
) -> None:
    loads = np.array([point[:2] for point in points], dtype=float)
    among = np.array([point[2] for point in points])
    kept = lightest(loads, among).tolist()
    for at in np.flatnonzero(among).tolist():
        beaten = any(
            (loads[k] <= loads[at]).all() and ((loads[k] < loads[at]).any() or k < at)
            for k in np.flatnonzero(among).tolist()
            if k != at
        )
        assert (at in kept) != beaten
    assert all(among[k] for k in kept)


def test_of_routings_alike_in_price_those_that_need_the_least_come_first() -> None:
    search, found = chosen(problem((SMALL, MEDIUM), judge=ON_ROUTER, quality_min=52.0), 3)
    good = allowed(search)
    light = lightest(search.routings.reached, good).tolist()
    assert 0 < len(light) < good.sum()
    assert found[0] in light
    assert all(good[k] for k in found[:3])


def test_a_heavier_routing_of_the_same_stages_is_never_listed_before_the_lighter_one() -> None:
    search, found = chosen(problem((SMALL, MEDIUM), judge=ON_ROUTER, quality_min=52.0), 8)
    reached, deployed = search.routings.reached, search.routings.deployed
    for before, k in enumerate(found):
        for later in found[before + 1 :]:
            same = (deployed[k] == deployed[later]).all()
            assert not (
                same and (reached[later] <= reached[k]).all() and search.routings.lower[later] >= 52.0
            )


def test_where_quality_is_sought_heavier_routings_are_as_good_as_lighter_ones() -> None:
    given = problem((SMALL, MEDIUM), judge=ON_ROUTER)
    best = replace(given, objective=Objective("quality", 0.95, None, latency_max_s=100.0))
    search, found = chosen(best, 3)
    assert search.routings.lower[found[0]] == search.routings.lower.max()


def test_where_not_all_routings_can_be_priced_the_lightest_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilevel, "MAX_PRICED", 10)
    with ThreadPoolExecutor(2) as threads:
        search = search_of(problem((SMALL, MEDIUM, LARGE), judge=ON_ROUTER, quality_min=52.0), threads)
        light = lightest(search.routings.reached, allowed(search))
        prices = bilevel.priced(References.of(search))
    priced = np.flatnonzero(~np.isnan(prices))
    assert 0 < len(light) <= 5
    assert len(search.routings) > len(priced)
    assert len(priced) <= 10
    assert set(light.tolist()) <= set(priced.tolist())


@pytest.mark.parametrize("goal", ["latency", "cost", "quality"])
def test_a_routing_is_looked_at_for_its_load_alone_unless_quality_is_sought(goal: str) -> None:
    limit = None if goal == "latency" else 9.0
    objective = Objective(goal, 0.95, 0.0 if goal == "quality" else 52.0, limit)  # type: ignore[arg-type]
    with ThreadPoolExecutor(2) as threads:
        search = search_of(problem((SMALL, MEDIUM), judge=ON_ROUTER, objective=objective), threads)
        assert len(lightest(search.routings.reached, allowed(search))) > 0
        assert (light(search) == []) is (goal == "quality")
