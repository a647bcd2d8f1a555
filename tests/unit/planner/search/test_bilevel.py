"""The routing solver: where it starts, what it minimises (the paper's own numbers), and when it ends."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cascadia.domain.objective import Objective
from cascadia.planner.allocation.demand import Allocation, Demand
from cascadia.planner.plan import routings_of, solver
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search import bilevel
from cascadia.planner.search.bilevel import BilevelResult, chebyshev, improves, iterate_by_score, proportional
from cascadia.planner.search.context import Search, start_search
from tests.unit.planner.problems import FIVE, problem, rising_table

pytestmark = pytest.mark.slow


def routings(lower: list[float], mean: list[float] | None = None, reached: object = None) -> Routings:
    count = len(lower)
    share = np.ones((count, 2)) if reached is None else np.array(reached, dtype=float)
    stages = share.shape[1]
    return Routings(
        np.full((count, stages - 1), 50.0),
        share > 0,
        share,
        mean=np.array(mean or lower, float),
        lower=np.array(lower, float),
    )


# Section 3.3's example: three strategies, and the best and the worst quality that there is.
PAPER = routings([0.88, 0.91, 0.93, 0.95, 0.75])
LATENCY_S = np.array([11.0, 11.4, 12.2, np.nan, np.nan])
MU = 100.0


def test_the_papers_example_has_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilevel, "MU", MU / np.nanmax(LATENCY_S))
    scores = chebyshev(Objective("latency", 0.95, 0.90), PAPER, LATENCY_S)
    assert scores[:3] == pytest.approx([21.0, 11.4, 12.2])
    assert (scores[0] - LATENCY_S[0]) / MU == pytest.approx(0.10)


def test_with_our_weight_the_papers_example_is_ordered_alike() -> None:
    scores = chebyshev(Objective("latency", 0.95, 0.90), PAPER, LATENCY_S)
    assert np.argsort(scores, kind="stable")[:3].tolist() == [1, 2, 0]
    assert (scores[0] - LATENCY_S[0]) / (bilevel.MU * 12.2) == pytest.approx(0.10)


def test_any_shortfall_outweighs_any_latency() -> None:
    scores = chebyshev(
        Objective("latency", 0.95, 80.0), routings([79.9, 80.0, 60.0, 90.0]), np.array([1, 900, 2, 950.0])
    )
    assert scores.argmin() == 1
    assert scores[3] < scores[0] < scores[2]


def test_where_nothing_reaches_the_bar_the_nearest_comes_first() -> None:
    scores = chebyshev(
        Objective("latency", 0.95, 99.0), routings([70.0, 90.0, 80.0]), np.array([1.0, 9.0, 5.0])
    )
    assert np.argsort(scores).tolist() == [1, 2, 0]


def test_under_a_latency_bound_quality_counts_until_the_bound_is_broken() -> None:
    objective = Objective("quality", 0.95, latency_max_s=10.0)
    scores = chebyshev(objective, routings([70.0, 85.0, 95.0]), np.array([2.0, 10.0, 12.0]))
    assert scores[:2].tolist() == [-70.0, -85.0]
    assert scores[2] == pytest.approx(-95.0 + bilevel.MU * 2.0 / 10.0)  # appendix C
    assert scores.argmin() == 1


def test_what_is_not_sustained_or_not_priced_is_never_chosen() -> None:
    latency = np.array([np.inf, np.nan, 5.0])
    for objective in (Objective("latency", 0.95, 50.0), Objective("quality", 0.95, latency_max_s=9.0)):
        scores = chebyshev(objective, routings([90.0, 95.0, 60.0]), latency)
        assert np.isfinite(scores).tolist() == [False, False, True]
    assert np.isinf(chebyshev(Objective("latency"), routings([90.0]), np.array([np.nan]))).all()


def test_the_start_is_nearest_to_proportional() -> None:
    found = routings([1, 2, 3, 4], reached=[[1, 1, 1], [1, 0.6, 0.3], [1, 0.45, 0.4], [0, 0, 1]])
    assert proportional(found) == 2
    assert proportional(routings([1, 2], reached=[[1, 0.5, 1 / 3], [1, 0.5, 0.5]])) == 0


def test_the_start_of_a_real_frontier_gives_stage_i_about_one_ith() -> None:
    known, _ = routings_of(problem(FIVE[1:4], table=rising_table(3, prompts=400, levels=40)))
    start = known.reached[proportional(known)]
    assert np.abs(start - [1, 1 / 2, 1 / 3]).max() < 0.12


@pytest.fixture
def search() -> Iterator[Search]:
    given = problem(FIVE[1:4], table=rising_table(3, levels=10))
    with ThreadPoolExecutor(1) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        yield search


class Solver:
    """Answers with one latency after the other."""

    def __init__(self, *latencies_s: float) -> None:
        self.latencies_s = list(latencies_s)
        self.asked = 0

    def __call__(self, demands: list[Demand]) -> Allocation:
        latency_s = self.latencies_s[min(self.asked, len(self.latencies_s) - 1)]
        self.asked += 1
        return Allocation({}, latency_s, latency_s)


def rounds(search: Search, solve: Solver) -> BilevelResult:
    told: list[str] = []
    result = bilevel.bilevel(search, solve, told.append)
    assert len(told) == len(result.rounds) == solve.asked
    return result


def test_the_loop_ends_after_k_rounds_without_progress(search: Search) -> None:
    assert len(rounds(search, Solver(1e-3)).rounds) == 1 + bilevel.STABLE_ROUNDS


def test_a_round_with_progress_starts_the_count_anew(search: Search) -> None:
    assert len(rounds(search, Solver(9e-3, 9e-3, 5e-3, 5e-3)).rounds) == 3 + bilevel.STABLE_ROUNDS


def test_progress_of_less_than_the_share_that_counts_is_none(search: Search) -> None:
    slowly = [1e-3 * (1 - bilevel.STABLE / 10) ** k for k in range(20)]
    assert len(rounds(search, Solver(*slowly)).rounds) == 1 + bilevel.STABLE_ROUNDS
    much, little = 2 * bilevel.STABLE, bilevel.STABLE / 2
    assert improves(1 - much, 1.0)
    assert not improves(1 - little, 1.0)
    assert improves(-80 * (1 + much), -80.0)  # under a latency bound J is a negative quality
    assert not improves(-80 * (1 + little), -80.0)
    assert not improves(np.inf, np.inf)


def test_the_loop_ends_however_long_there_is_progress(search: Search) -> None:
    faster = [1e-3 * 0.8**k for k in range(99)]
    assert len(rounds(search, Solver(*faster)).rounds) == bilevel.MAX_ROUNDS


def test_no_routing_is_solved_twice_and_the_best_is_kept(search: Search) -> None:
    result = rounds(search, Solver(9e-3, 2e-3, 5e-3, 4e-3))
    visited = [r.routing for r in result.rounds]
    assert len(set(visited)) == len(visited)
    assert result.best is result.rounds[1]
    assert visited[0] == proportional(search.routings)


def test_routings_are_listed_by_score_and_without_those_that_cannot_be(search: Search) -> None:
    objective = search.problem.objective
    result = bilevel.bilevel(search, solver(search, "columns"), lambda _: None)
    order = list(iterate_by_score(result, objective, search.routings))
    scores = chebyshev(objective, search.routings, result.prices_s)[order]
    assert (np.diff(scores) >= 0).all()
    assert np.isfinite(result.prices_s[order]).all()
