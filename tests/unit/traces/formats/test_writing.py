"""A written file is there in full or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cascadia_traces.formats.reading import iter_trace, read_trace
from cascadia_traces.formats.writing import SUFFIXES, write_trace
from cascadia_traces.generate.scaling import rate_span, scaled
from cascadia_traces.trace import BadInput, Trace
from tests.unit.traces.samples import file_of, same, trace_of


def broken() -> Iterator[Trace]:
    yield trace_of([0, 1])
    raise BadInput("in.csv, row 3", "bad")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    path = file_of(tmp_path, "old", f"trace{suffix}")
    with pytest.raises(BadInput, match=r"in\.csv, row 3: bad"):
        write_trace(broken(), path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [(path.name, "old")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_traces_give_equal_bytes(tmp_path: Path, suffix: str) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    write_trace(trace_of([0, 1]), one)
    write_trace(trace_of([0, 1]), other)
    assert one.read_bytes() == other.read_bytes()


def test_a_trace_may_be_written_over_the_file_it_is_read_from(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    whole = trace_of([0, 1, 2, 5])
    write_trace(whole, path)
    span = rate_span(iter_trace(path, rows=2))
    write_trace(scaled(iter_trace(path, rows=2), span, 8), path)
    assert same(read_trace(path), whole.scaled(8))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("trace.txt", r"unknown suffix '\.txt'; end it in \.parquet, \.csv"),
        ("trace", "unknown suffix ''"),
        ("trace.parquet.gz", "unknown suffix"),
        ("none/trace.csv", "cannot be written: No such file or directory; create the directory"),
        ("folder.csv", "this is a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadInput, match=told):
        write_trace(trace_of([0]), tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([], "no requests to write"),
        ([trace_of([5]), trace_of([4])], "starts before the one ahead"),
        ([trace_of([1]), trace_of([2], prompt_id=("a",))], "differ in columns"),
    ],
)
def test_parts_that_are_no_trace_are_refused(tmp_path: Path, parts: list[Trace], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        write_trace(parts, tmp_path / "trace.csv")
    assert list(tmp_path.iterdir()) == []


def test_scaling_a_trace_that_comes_at_once_is_refused() -> None:
    with pytest.raises(BadInput, match="no rate to scale"):
        scaled([], rate_span([trace_of([3, 3])]), 2)
    with pytest.raises(BadInput, match="0 is not a rate"):
        scaled([], rate_span([trace_of([3, 4])]), 0)
