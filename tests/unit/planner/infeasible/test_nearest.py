"""How the nearest value is asked for: few questions, and an answer whose neighbour does not hold."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.domain.objective import Level, Objective
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.infeasible.explain import too_slow
from cascadia.planner.infeasible.nearest import (
    MOST_KEPT,
    Planning,
    first_that_holds,
    grown,
    nearest_kept,
    rounded_down,
)
from cascadia.planner.plan import routings_of
from cascadia.planner.refinement.state import Candidate
from cascadia.planner.search.context import Search, start_search
from tests.unit.planner.instances import pool
from tests.unit.planner.problems import SMALL, problem, traffic


@given(st.lists(st.booleans(), max_size=40), st.integers(-5, 50))
def test_what_is_found_holds_and_the_value_before_it_does_not(holding: list[bool], guess: int) -> None:
    at = first_that_holds(-1, len(holding), guess, holding.__getitem__)
    if at is None:
        assert not holding or not holding[-1]
    else:
        assert holding[at]
        assert at == 0 or not holding[at - 1]


@given(st.integers(0, 100), st.integers(0, 99))
def test_no_value_is_asked_for_twice_and_a_good_guess_needs_few_questions(first: int, guess: int) -> None:
    asked: list[int] = []

    def holds(at: int) -> bool:
        asked.append(at)
        return at >= first

    found = first_that_holds(-1, 100, guess, holds)
    assert found == (first if first < 100 else None)
    assert len(set(asked)) == len(asked)
    assert len(asked) <= (3 if abs(guess - first) <= 1 else 16)


@given(st.integers(0, 120), st.integers(0, 99), st.integers(1, 12))
def test_no_more_questions_are_asked_than_may_be_and_what_is_found_holds(
    first: int, guess: int, most: int
) -> None:
    asked: list[int] = []

    def holds(at: int) -> bool:
        asked.append(at)
        return at >= first

    found = first_that_holds(-1, 100, guess, holds, most)
    assert len(asked) <= most
    assert (found is None) == (first >= 100)
    assert found is None or first <= found < 100


@given(st.integers(0, 140), st.integers(0, 99))
def test_what_keeps_a_bound_is_near_however_far_it_lies_beyond_what_is_sustained(
    kept: int, first: int
) -> None:
    """Where three steps kept none, the last of all was told: a tenth of a rate of which a third would do."""
    asked: list[int] = []

    def holds(at: int) -> bool:
        asked.append(at)
        return at >= kept

    found = nearest_kept(first, 100, holds)
    assert len(set(asked)) == len(asked) <= MOST_KEPT
    if kept >= 100:
        assert found is None
        assert len(asked) <= 3
    else:
        assert found is not None
        assert 0 <= found - max(kept, first) <= (99 - first) / 2 ** (MOST_KEPT - 3)


def test_a_single_node_is_filled_before_nodes_are_added() -> None:
    sizes = [(p.nodes, p.gpus_per_node) for p in grown(pool(1, 6))]
    assert sizes[:4] == [(1, 7), (1, 8), (2, 8), (3, 8)]
    assert sizes[-1] == (12, 8)


def test_a_cluster_of_nodes_grows_by_whole_nodes() -> None:
    assert [(p.nodes, p.gpus_per_node) for p in grown(pool(2, 4))] == [(n, 4) for n in range(3, 33)]


@given(st.floats(0, 100))
def test_a_quality_is_rounded_to_what_is_reached(quality: float) -> None:
    assert quality - 0.0101 < rounded_down(quality) <= quality


@pytest.mark.parametrize(
    ("latency_s", "ttft_s", "said"),
    [
        (
            9.0,
            0.3,
            "TTFT p95 <= 0.1 s is below what 8 GPUs reach with end to end p95 <= 10 s at quality >= 20",
        ),
        (
            19.0,
            0.05,
            "latency_max_s 10 (p95) is below what 8 GPUs reach with TTFT p95 <= 0.1 s at quality >= 20",
        ),
    ],
)
def test_the_lowest_latency_is_told_only_of_the_bound_on_it(
    latency_s: float, ttft_s: float, said: str
) -> None:
    """Told of a level it would be seconds of another measure, and no plan would keep them."""
    asked = Objective("cost", 0.95, 20.0, 10.0, levels=(Level("ttft", 0.95, 0.1),))
    made = problem((SMALL,), objective=asked, trace=traffic(150, 30.0))
    fastest: list[float] = []

    def lowest(search: Search, known: Sequence[Candidate]) -> float:
        fastest.append(12.0)
        return 12.0

    planning = Planning(
        sustains=lambda _: True,
        kept=lambda _: None,
        fastest=lowest,
        progress=lambda _: None,
        rents=lambda p: p,
    )
    with ThreadPoolExecutor(1) as threads:
        search = start_search(made, routings_of(made)[0], threads)
    found = Candidate(deployment(0, {}), latency_s, 50.0, load=0.5, levels_s=(ttft_s,))
    text = str(too_slow(search, [found], planning))
    assert said in text
    assert text.endswith(
        "the lowest found is 12 s, with the trace eight times end to end"
        if fastest
        else "one deployment takes 0.3 s"
    )
    assert bool(fastest) is (latency_s > 10.0)
