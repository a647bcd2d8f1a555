"""A request is a row of the table, as long as trace and table say, and never beyond a stage's context."""

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.join import Context, join
from cascadia_traces.trace import Trace


def a_table(output_tokens: list[list[float]], prompts: int = 3) -> QualityTable:
    outputs = np.array(output_tokens)
    stages = tuple("abcde"[: len(outputs)])
    scores = np.full(outputs.shape, 50.0)
    inputs = np.tile(np.arange(10.0, 10 + prompts), (len(outputs), 1))
    return QualityTable(
        tuple(f"p{i}" for i in range(prompts)),
        stages,
        scores,
        quality=scores,
        input_tokens=inputs,
        output_tokens=outputs,
    )


def a_trace(
    inputs: list[int],
    outputs: list[int],
    ids: tuple[str, ...] | None = None,
    prefix: list[int] | None = None,
) -> Trace:
    arrival_s = 5.0 + np.arange(len(inputs))
    return Trace(
        arrival_s,
        np.array(inputs),
        np.array(outputs),
        prompt_id=ids,
        prefix_tokens=None if prefix is None else np.array(prefix),
    )


TABLE = a_table([[100, 100, 100], [300, 300, 300]])


def test_output_lengths_are_scaled_by_each_stages_share_of_the_mean() -> None:
    workload, notes = join(a_trace([7, 8], [40, 41]), TABLE, seed=0)
    assert workload.input_tokens.tolist() == [[7, 8], [7, 8]]
    assert workload.output_tokens.tolist() == [[20, 20], [60, 62]]  # 41 * 0.5 and 41 * 1.5, to even
    assert workload.arrival_s.tolist() == [0, 1]
    assert notes == ()


def test_an_answer_is_never_shorter_than_a_token() -> None:
    workload, _ = join(a_trace([1, 1], [1, 1]), a_table([[1, 1, 1], [999, 999, 999]]), seed=0)
    assert workload.output_tokens.min() == 1


def test_known_prompts_take_their_rows_and_the_tables_lengths() -> None:
    table = a_table([[1, 2, 3], [4, 5, 6]])
    workload, _ = join(a_trace([7, 8, 9], [1, 1, 1], ids=("p2", "p0", "p2")), table, seed=0)
    assert workload.row.tolist() == [2, 0, 2]
    assert workload.output_tokens.tolist() == [[3, 1, 3], [6, 4, 6]]
    assert workload.input_tokens.tolist() == [[12, 10, 12], [12, 10, 12]]


def test_lengths_come_from_where_they_are_asked_for() -> None:
    trace = a_trace([7, 8, 9], [10, 10, 10], ids=("p0", "p0", "p0"))
    from_trace, _ = join(trace, TABLE, seed=0, lengths="trace")
    assert from_trace.input_tokens[0].tolist() == [7, 8, 9]
    drawn, _ = join(a_trace([7, 8, 9], [10, 10, 10]), TABLE, seed=0, lengths="table")
    assert drawn.input_tokens[0].tolist() == (10 + drawn.row).tolist()


def test_rows_are_drawn_alike_for_equal_seeds_and_evenly_over_the_table() -> None:
    trace = a_trace([1] * 30_000, [1] * 30_000)
    first, again, other = (join(trace, TABLE, seed=seed)[0].row for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    counts = np.bincount(first)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(30_000 * 2 / 9)  # five binomial deviations


@pytest.mark.parametrize(
    ("ids", "count"), [(("p0", "x", "p1"), "only 2"), (("x", "y", "z"), "none"), (("p0", "", "p1"), "only 2")]
)
def test_ids_that_do_not_all_join_are_an_error(ids: tuple[str, ...], count: str) -> None:
    with pytest.raises(BadInput) as caught:
        join(a_trace([1, 1, 1], [1, 1, 1], ids=ids), TABLE, seed=0, where="chat.csv")
    assert str(caught.value).startswith(f"chat.csv: {count} of its 3 requests have a prompt_id that is in")


def test_a_trace_whose_ids_are_all_empty_has_none() -> None:
    workload, _ = join(a_trace([7, 8], [1, 1], ids=("", "")), TABLE, seed=0)
    assert workload.input_tokens[0].tolist() == [7, 8]


def test_long_inputs_give_way_to_answers_and_are_counted() -> None:
    trace = a_trace([50, 100, 10], [40, 40, 300])
    workload, notes = join(trace, TABLE, seed=0, contexts=(Context("a", 100), Context("b", 10_000)))
    assert workload.input_tokens[0].tolist() == [50, 80, 1]
    assert workload.output_tokens[0].tolist() == [20, 20, 99]
    assert workload.input_tokens[1].tolist() == [50, 100, 10]
    assert notes == (
        "2 of 3 requests exceed the context of stage 'a' (100 tokens): their inputs are cut to fit it",
    )


def test_long_requests_are_an_error_where_that_is_asked_for() -> None:
    with pytest.raises(BadInput) as caught:
        join(a_trace([99, 99], [40, 40]), TABLE, seed=0, contexts=(Context("a", 100),), overlong="error")
    assert "2 of 2 requests exceed the context of stage 'a' (100 tokens)" in str(caught.value)


def test_prefixes_leave_at_least_one_token_to_compute() -> None:
    trace = a_trace([50, 60], [1, 1], prefix=[49, 10])
    workload, _ = join(trace, TABLE, seed=0, max_input_tokens=20)
    assert workload.prefix_tokens.tolist() == [19, 10]


def test_requests_that_all_come_at_once_have_no_rate() -> None:
    trace = Trace(np.zeros(2), np.array([1, 1]), np.array([1, 1]))
    with pytest.raises(BadInput, match="all requests arrive at once"):
        join(trace, TABLE, seed=0)
