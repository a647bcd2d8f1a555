"""What is planned for: a rate that is not exceeded by chance, on traffic long enough to tell."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.decide.traffic_to_plan import (
    MOST_REQUESTS,
    SPAN_S,
    rate_to_plan_rps,
    trace_to_plan,
    with_prefixes,
)
from cascadia.controller.detect.windows import Samples
from cascadia_traces.trace import Trace
from tests.unit.controller.traffic import traffic


def test_the_rate_planned_for_is_below_the_true_one_in_one_case_of_twenty() -> None:
    found = np.array([rate_to_plan_rps(traffic(seed, 400.0, rate_rps=2.0)) for seed in range(400)])
    assert 0.02 < (found < 2.0).mean() < 0.09
    assert found.mean() == pytest.approx(2.12, abs=0.03)


def test_the_less_steady_requests_come_the_more_is_planned_for() -> None:
    steady, bursty = (
        np.mean([rate_to_plan_rps(traffic(s, 3600.0, rate_rps=2.0, burstiness=b)) for s in range(20)])
        for b in (1.0, 4.0)
    )
    assert bursty > steady + 0.05


def test_requests_that_were_not_answered_count() -> None:
    answered = traffic(1, 600.0, rate_rps=1.0)
    all_came = Samples(
        answered.arrival_s,
        answered.input_tokens,
        answered.output_tokens,
        came_s=traffic(2, 600.0, rate_rps=3.0).arrival_s,
    )
    assert rate_to_plan_rps(all_came) == pytest.approx(3.0, rel=0.15)


def test_a_sampled_log_is_scaled_up() -> None:
    whole = traffic(1, 600.0, rate_rps=1.0)
    half = Samples(whole.arrival_s, whole.input_tokens, whole.output_tokens, ratio=0.5)
    assert rate_to_plan_rps(half) == pytest.approx(2 * rate_to_plan_rps(whole))


def test_a_short_stretch_is_repeated_until_a_queue_would_show() -> None:
    trace = trace_to_plan(traffic(1, 100.0, rate_rps=5.0), 20_000, 6.0)
    assert trace.duration_s >= SPAN_S - 1.0
    assert trace.rate_rps == pytest.approx(6.0, rel=0.01)


def test_of_much_traffic_the_latest_is_taken() -> None:
    samples = traffic(1, 4000.0, rate_rps=2.0)
    trace = trace_to_plan(samples, 3000, 2.0)
    assert trace.input_tokens.tolist() == samples.input_tokens[-3000:].tolist()


def test_requests_share_as_large_a_part_of_their_input_as_before() -> None:
    arrival_s, output = np.array([0.0, 1.0]), np.array([1, 1])
    before = Trace(arrival_s, np.array([100, 300]), output, prefix_tokens=np.array([90, 210]))
    today = Trace(arrival_s, np.array([10, 1]), output)
    found = with_prefixes(today, before)
    assert found.prefix_tokens is not None
    assert found.prefix_tokens.tolist() == [7, 0]
    assert with_prefixes(today, replace(before, prefix_tokens=None)) is today


def test_a_trace_to_plan_begins_at_once_and_keeps_the_gaps() -> None:
    came_s = np.array([5000.0, 5001.0, 5004.0])
    samples = Samples(came_s, np.array([1, 2, 3]), np.array([4, 5, 6]))
    trace = trace_to_plan(samples, 3, 0.5)
    assert trace.arrival_s[:3].tolist() == pytest.approx([0.0, 1.5, 6.0])
    assert trace.arrival_s[3] == pytest.approx(9.0)


def test_the_span_is_from_the_first_request_to_the_last() -> None:
    """Eleven requests in ten seconds after ten of silence are eleven in twenty; by chance 1.645 roots more."""
    came_s = np.array([0.0, *np.linspace(10.0, 20.0, 10)])
    ones = np.ones(11, np.int64)
    expected = (11 + 1.645 * np.sqrt(11)) / 20
    assert rate_to_plan_rps(Samples(came_s, ones, ones)) == pytest.approx(expected)
    once = Samples(came_s[:1], ones[:1], ones[:1])
    assert trace_to_plan(once, 5, 1.0).arrival_s.tolist() == [0.0]


def test_requests_that_come_like_clockwork_are_taken_to_come_by_chance() -> None:
    """Two minutes of them tell little of how steadily they will come."""
    came_s = np.arange(0.0, 121.0)
    ones = np.ones(121, np.int64)
    expected = (121 + 1.645 * np.sqrt(121)) / 120
    assert rate_to_plan_rps(Samples(came_s, ones, ones)) == pytest.approx(expected)


def test_traffic_of_more_requests_than_are_simulated_is_played_once() -> None:
    n = MOST_REQUESTS + 1
    ones = np.ones(n, np.int64)
    assert len(trace_to_plan(Samples(np.arange(n) / 1000.0, ones, ones), n, 1000.0)) == n
