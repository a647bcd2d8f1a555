"""Shapes that others beat everywhere get no tables of their own for each routing."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster
from cascadia.planner.plan import routings_of
from cascadia.planner.search.context import start_search
from cascadia.planner.tables.worthwhile import worth_having
from tests.unit.planner.instances import pool, shape, table
from tests.unit.planner.problems import problem

pytestmark = pytest.mark.slow

WHOLE, ODD = Cluster((pool(1, 8),)), Cluster((pool(1, 6),))


def test_a_shape_that_carries_less_and_is_slower_is_left_out() -> None:
    pipeline, wide = shape(2, 2), shape(4)
    made = table([pipeline, wide], [[np.inf, 9, 8, 7], [5, 4, 3, 2]])
    assert worth_having(made, WHOLE) == (wide,)


def test_one_that_is_faster_at_some_level_is_kept() -> None:
    pipeline, wide = shape(2, 2), shape(4)
    made = table([pipeline, wide], [[np.inf, 9, 8, 1], [5, 4, 3, 2]])
    assert worth_having(made, WHOLE) == (pipeline, wide)


def test_a_smaller_one_is_kept_since_it_fits_where_the_larger_does_not() -> None:
    small, large = shape(1), shape(4)
    made = table([small, large], [[np.inf, np.inf, 8, 7], [5, 4, 3, 2]])
    assert worth_having(made, WHOLE) == (small, large)


def test_copies_of_a_smaller_one_may_beat_a_larger() -> None:
    small, large = shape(1), shape(2)
    made = table([small, large], [[np.inf, 3, 2, 1], [np.inf, 9, 8, 7]])
    assert worth_having(made, WHOLE) == (small,)


def test_where_gpus_come_in_odd_parts_a_wider_one_beats_none() -> None:
    pipeline, wide = shape(2, 2), shape(4)
    made = table([pipeline, wide], [[np.inf, 9, 8, 7], [5, 4, 3, 2]])
    assert worth_having(made, ODD) == (pipeline, wide)


def test_another_pools_shape_beats_none() -> None:
    here, there = shape(2, 2), shape(4, pool="b")
    made = table([here, there], [[np.inf, 9, 8, 7], [5, 4, 3, 2]])
    assert worth_having(made, Cluster((pool(1, 8), pool(1, 8, "b")))) == (here, there)


def test_what_is_left_out_would_not_have_been_chosen() -> None:
    """Of a search with tables of all shapes the allocation is no better."""
    from cascadia.planner.search.solver import solver

    asked = problem()
    with ThreadPoolExecutor(2) as threads:
        search = start_search(asked, routings_of(asked)[0], threads)
        for routing in range(len(search.routings)):
            bounds = [
                found.latency_s if (found := solver(one, "columns")(one.demands(routing))) else np.inf
                for one in (search, replace(search, every_shape=True))
            ]
            assert bounds[0] <= bounds[1] * (1 + 1e-9)
