"""Results are read off the times as defined, at the edges too."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.engine.client import delays_ps
from cascadia_sim.engine.results import (
    attainment,
    over_time,
    present,
    quantile,
    quantiles_ps,
    throughput_rps,
    tokens_per_s,
)
from tests.unit.sim.machines import ints, machine

S = 1_000_000_000_000


def test_a_quantile_is_an_observed_latency() -> None:
    assert quantiles_ps(ints(40, 10, 30, 20), [0.0, 0.25, 0.5, 0.51, 0.95, 1.0]).tolist() == [
        10,
        10,
        20,
        30,
        40,
        40,
    ]


def test_no_request_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no request"):
        quantiles_ps(ints(), [0.5])


@given(st.lists(st.integers(0, 50), min_size=1), st.floats(0, 1) | st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_one_quantile_is_what_numpy_finds(values: list[int], share: float) -> None:
    assert quantile(np.array(values), share) == np.quantile(values, share, method="inverted_cdf")


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(0, 60), st.sampled_from([0.5, 0.9, 0.95, 1.0]))
def test_a_quantile_keeps_a_limit_exactly_if_the_share_attains_it(
    latency: list[int], limit: int, q: float
) -> None:
    values = np.array(latency, dtype=np.int64)
    kept = attainment(values, ints(limit))[0]
    assert (quantiles_ps(values, [q])[0] <= limit) == (kept >= q)


def test_throughput_counts_from_first_arrival_to_last_finish() -> None:
    arrival, finish = ints(S, 2 * S), ints(5 * S, 3 * S)
    assert throughput_rps(arrival, finish) == 0.5
    assert tokens_per_s(ints(100, 20), arrival, finish) == 30.0
    assert throughput_rps(ints(), ints()) == 0.0


def test_those_present_have_entered_and_not_left() -> None:
    entered, left = ints(0, 10, 10), ints(30, 20, 10)
    assert present(entered, left, ints(-1, 0, 9, 10, 19, 20, 30)).tolist() == [0, 1, 1, 2, 2, 1, 0]


def test_counts_over_time_start_at_the_first_entry_and_end_empty() -> None:
    counts = over_time(ints(S, 2 * S), ints(4 * S, 3 * S), points=4)
    assert counts.at_s.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert counts.count.tolist() == [1, 2, 1, 0]


def test_rates_are_over_the_span_however_short_it_is() -> None:
    arrival, finish, tokens = ints(S, S), ints(S + S // 4, S + S // 2), ints(3, 5)
    assert (throughput_rps(arrival, finish), tokens_per_s(tokens, arrival, finish)) == (4.0, 16.0)
    assert (throughput_rps(arrival, arrival), tokens_per_s(tokens, arrival, arrival)) == (0.0, 0.0)
    assert (throughput_rps(ints(), ints()), tokens_per_s(ints(), ints(), ints())) == (0.0, 0.0)


def test_clients_of_requests_that_never_ended_are_told_of_no_delay() -> None:
    """Three decode steps of 10 ps late, and 7 ps: of an answer of one token, steps of a lone sequence, 1,001 ps."""
    late = replace(machine(), client_ps=7, client_steps=3.0)
    first, finish, wrote = ints(100, 100, -1, 100), ints(140, 100, -1, 111), ints(5, 1, 5, 2)
    found = delays_ps((late,), np.zeros(4, np.int64), first, finish, wrote)
    assert found.tolist() == [7 + 3 * 10, 7 + 3 * 1001, 0, 7 + 3 * 11]
    prompt = machine()
    mixed = delays_ps((prompt, late), ints(0, 1, 1, 0), first, finish, wrote)
    assert mixed.tolist() == [0, 7 + 3 * 1001, 0, 0]
    assert delays_ps((prompt,), np.zeros(4, np.int64), first, finish, wrote).tolist() == [0, 0, 0, 0]
