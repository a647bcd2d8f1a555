import numpy as np
import pytest

from cascadia_traces.trace import BadInput, Trace, join
from tests.unit.traces.samples import same, trace_of


def test_rate_is_requests_over_the_time_from_first_to_last() -> None:
    trace = trace_of([10, 11, 12, 15])
    assert (trace.duration_s, trace.rate_rps) == (5, 0.8)


def test_scaling_sets_the_mean_rate_and_keeps_the_shape() -> None:
    scaled = trace_of([0, 1, 2, 5]).scaled(8)
    assert scaled.rate_rps == pytest.approx(8)
    assert scaled.arrival_s.tolist() == pytest.approx([0, 0.1, 0.2, 0.5])


def test_starting_at_zero_shifts_all_arrivals_alike() -> None:
    assert trace_of([7, 9]).starting_at_zero().arrival_s.tolist() == [0, 2]


def test_a_trace_whose_requests_come_at_once_has_no_rate_to_scale() -> None:
    with pytest.raises(BadInput, match="arrive at once"):
        trace_of([3, 3]).scaled(1)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_to_scale_to_is_finite_and_positive(rate: float) -> None:
    with pytest.raises(BadInput, match="not a rate"):
        trace_of([0, 1]).scaled(rate)


@pytest.mark.parametrize(
    ("arrival_s", "inputs", "told"),
    [
        ([], [], "no requests"),
        ([0, -1], [1, 1], "request 2: the arrival time -1 s is negative"),
        ([0, float("nan")], [1, 1], "request 2: the arrival time is NaN"),
        ([0, 2, 1], [1, 1, 1], "request 3: the arrival time 1 s is before the previous one, 2 s"),
        ([0, 1.7e12], [1, 1], "request 2: the arrival time 1.7e\\+12 s is beyond"),
        ([0, 1], [1, 0], "request 2: input_tokens is 0"),
    ],
)
def test_the_first_invalid_request_is_named(arrival_s: list[float], inputs: list[int], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        trace_of(arrival_s, inputs)


def test_a_prefix_leaves_a_token_to_compute() -> None:
    with pytest.raises(BadInput, match="request 1: prefix_tokens is 10; write a whole number from 0 to"):
        trace_of([0], [10], prefix_tokens=np.array([10]))


def test_columns_that_would_lose_something_are_a_programming_error() -> None:
    with pytest.raises(TypeError, match="int64"):
        Trace(np.zeros(1), np.ones(1), np.ones(1, dtype=np.int64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="equally long"):
        Trace(np.zeros(2), np.ones(1, dtype=np.int64), np.ones(2, dtype=np.int64))


def test_parts_join_to_the_whole() -> None:
    whole = trace_of([0, 1, 1, 4], prompt_id=("a", "b", "c", "d"), prefix_tokens=np.arange(4))
    assert same(join([whole.rows(0, 1), whole.rows(1, 3), whole.rows(3, 4)]), whole)


def test_an_error_is_one_line() -> None:
    error = BadInput("a\nb.csv", "odd", "write\nthis")
    assert str(error) == "a b.csv: odd; write this"
    assert (error.where, error.what, error.instead) == ("a\nb.csv", "odd", "write\nthis")


def test_scaling_keeps_the_first_arrival_where_it_was() -> None:
    assert trace_of([1.7e9, 1.7e9 + 5]).scaled(0.1).arrival_s.tolist() == [1.7e9, 1.7e9 + 20]
