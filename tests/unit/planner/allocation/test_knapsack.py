"""Covering a stage's requests with replicas: the dynamic program against enumeration."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.planner.allocation.knapsack import cover, least_gpus, mix
from tests.examples import examples
from tests.unit.planner.instances import demand, shape

sizes_and_shares = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([0.0, 0.125, 0.25, 0.375, 0.5, 1.0])), min_size=1, max_size=3
)


def largest_share(chosen: list[tuple[int, float]], most: int) -> float:
    every = product(*(range(most // g + 1) for g, _ in chosen))
    return max(
        sum(n * a for n, (_, a) in zip(counts, chosen, strict=True))
        for counts in every
        if sum(n * g for n, (g, _) in zip(counts, chosen, strict=True)) <= most
    )


@settings(max_examples=examples(80))
@given(sizes_and_shares)
def test_covering_is_what_enumeration_finds(chosen: list[tuple[int, float]]) -> None:
    found = cover([g for g, _ in chosen], np.array([a for _, a in chosen]), 9)
    assert found.share.tolist() == [largest_share(chosen, f) for f in range(10)]


@settings(max_examples=examples(80))
@given(sizes_and_shares, st.integers(0, 9))
def test_a_mix_is_what_the_share_was_made_of(chosen: list[tuple[int, float]], f: int) -> None:
    sizes = [g for g, _ in chosen]
    found = cover(sizes, np.array([a for _, a in chosen]), 9)
    counts = mix(found, sizes, f)
    assert sum(n * sizes[s] for s, n in counts.items()) <= f
    assert sum(n * chosen[s][1] for s, n in counts.items()) == found.share[f]


def test_covering_stops_where_enough_is_reached() -> None:
    found = cover([1], np.array([0.5]), 5, enough=1.0)
    assert found.share.tolist() == [0.0, 0.5, 1.0, 1.0, 1.0, 1.0]
    assert mix(found, [1], 5) == {0: 2}


def test_unequal_replicas_share_a_stage_where_equal_ones_would_waste() -> None:
    found = cover([3, 2], np.array([0.7, 0.35]), 8)
    assert found.share[5] == 0.7 + 0.35
    assert mix(found, [3, 2], 5) == {0: 1, 1: 1}


def test_fewest_gpus_are_those_of_the_cheapest_shape_that_keeps_the_bound() -> None:
    stage = demand(0, [shape(1), shape(4)], [[np.inf, 8.0, 6.0], [2.0, 1.5, 1.0]], gated=False)
    assert least_gpus(stage, 8.0, 8) == 2
    assert least_gpus(stage, 6.0, 8) == 3
    assert least_gpus(stage, 2.0, 8) == 4
    assert least_gpus(stage, 0.9, 8) is None
    assert least_gpus(stage, 2.0, 3) is None


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3))
def test_equal_replicas_are_enough_where_shares_are_one_over_a_whole_number(
    chosen: list[tuple[int, int]],
) -> None:
    """k replicas with 1/k each cover exactly: no fraction of any shape does it on fewer GPUs."""
    found = cover([g for g, _ in chosen], np.array([1 / k for _, k in chosen]), 24)
    least = int(np.flatnonzero(found.share >= 1 - 1e-9)[0])
    assert least == min(g * k for g, k in chosen)
