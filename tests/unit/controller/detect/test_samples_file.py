"""The workload log is read once, file by file, and what is damaged or gone is skipped."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cascadia.controller.detect.samples_file import AHEAD_S, SampleFiles
from cascadia.router.observers.samples_rows import ARRIVALS, REQUESTS, Row, batch_of, schema_of


def request(arrival_s: float, *scores: tuple[str, float | None]) -> Row:
    steps = [{"stage": stage, "score": score, "outcome": "accepted"} for stage, score in scores]
    row: dict[str, Any] = dict.fromkeys(schema_of(REQUESTS, text=False).names)
    return row | {"arrival_s": arrival_s, "input_tokens": 10, "output_tokens": 20, "steps": steps}


def write(folder: Path, name: str, kind: str, *rows: Row) -> None:
    batch = batch_of(rows, schema_of(kind, text=False))
    parquet.write_table(pa.Table.from_batches([batch]), folder / f"{kind}-{name}.parquet")


def test_requests_come_by_arrival_with_the_scores_of_each_stage(tmp_path: Path) -> None:
    write(tmp_path, "b", REQUESTS, request(3.0, ("small", 80.0)), request(5.0) | {"gear": 2})
    write(tmp_path, "a", REQUESTS, request(4.0, ("small", 20.0), ("large", None)))
    samples = SampleFiles(tmp_path, ratio=0.5).read()
    assert samples.arrival_s.tolist() == [3.0, 4.0, 5.0]
    assert samples.ratio == 0.5
    np.testing.assert_array_equal(samples.scores["small"], [80.0, 20.0, np.nan])
    assert "large" not in samples.scores
    assert samples.gear is not None
    assert samples.gear.tolist() == [-1, -1, 2]


def test_a_stage_that_was_asked_again_has_its_last_score_and_one_without_any_has_none(tmp_path: Path) -> None:
    write(
        tmp_path, "a", REQUESTS, request(1.0, ("small", 30.0), ("small", 70.0), ("small", None)), request(2.0)
    )
    write(tmp_path, "b", REQUESTS, request(1.5, ("large", 90.0)), request(3.0) | {"steps": None, "gear": 2})
    samples = SampleFiles(tmp_path).read()
    assert samples.arrival_s.tolist() == [1.0, 1.5, 2.0, 3.0]
    np.testing.assert_array_equal(samples.scores["small"], [70.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(samples.scores["large"], [np.nan, 90.0, np.nan, np.nan])
    assert samples.gear is not None
    assert samples.gear.tolist() == [-1, -1, -1, 2]


def test_of_a_router_of_before_which_wrote_no_gears_none_is_told(tmp_path: Path) -> None:
    """Taken for the first gear, its requests would pass for those of a heavier one than planned for."""
    write(tmp_path, "a", REQUESTS, request(1.0), request(2.0))
    path = tmp_path / "requests-a.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns(["gear"]), path)
    write(tmp_path, "b", REQUESTS, request(3.0) | {"gear": 0})
    samples = SampleFiles(tmp_path).read()
    assert samples.gear is not None
    assert samples.gear.tolist() == [-1, -1, 0]


def test_a_look_that_finds_no_new_file_copies_nothing(tmp_path: Path) -> None:
    """Two days of a busy router are millions of requests: made anew at each look they outlasted a lease."""
    write(tmp_path, "a", REQUESTS, request(1.0, ("small", 80.0)), request(2.0))
    write(tmp_path, "a", ARRIVALS, {"arrival_s": 1.0}, {"arrival_s": 2.0})
    files = SampleFiles(tmp_path)
    first, second = files.read(), files.read()
    assert np.shares_memory(first.arrival_s, second.arrival_s)
    assert np.shares_memory(first.arrivals_s, second.arrivals_s)
    assert np.shares_memory(first.scores["small"], second.scores["small"])


def test_who_came_is_known_before_he_is_answered_and_errors_are_no_answers(tmp_path: Path) -> None:
    answered = request(1.0) | {"status": 200, "e2e_s": 4.0}
    write(tmp_path, "a", REQUESTS, answered, request(2.0) | {"status": 429, "e2e_s": 0.1})
    files = SampleFiles(tmp_path, kept_s=100.0)
    assert files.read().came_s is None
    assert files.read().arrivals_s.tolist() == [1.0, 2.0]
    write(tmp_path, "b", ARRIVALS, {"arrival_s": 3.0}, {"arrival_s": 1.0})
    write(tmp_path, "a", ARRIVALS, {"arrival_s": 2.0})
    samples = files.read()
    assert samples.arrivals_s.tolist() == [1.0, 2.0, 3.0]
    assert samples.e2e_s is not None
    assert samples.e2e_s.tolist() == [4.0, np.inf]
    assert samples.between(2.0, 9.0).arrivals_s.tolist() == [2.0, 3.0]


def test_new_files_are_added_and_old_requests_forgotten(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path, kept_s=100.0)
    assert len(files.read()) == 0
    write(tmp_path, "a", REQUESTS, request(1.0), request(90.0))
    assert len(files.read()) == 2
    (tmp_path / "requests-broken.parquet").write_bytes(b"PAR1 and no more")
    write(tmp_path, "b", REQUESTS, request(150.0))
    assert files.read().arrival_s.tolist() == [90.0, 150.0]


def test_a_routers_clock_that_jumped_ahead_makes_nothing_else_old(tmp_path: Path) -> None:
    now = [1000.0]
    files = SampleFiles(tmp_path, kept_s=100.0, clock=lambda: now[0])
    write(tmp_path, "a", REQUESTS, request(990.0), request(1e9))
    write(tmp_path, "a", ARRIVALS, {"arrival_s": 991.0}, {"arrival_s": 1e9})
    assert files.read().arrival_s.tolist() == [990.0]
    assert files.read().arrivals_s.tolist() == [991.0]
    now[0] = 1080.0
    write(tmp_path, "b", REQUESTS, request(1050.0))
    assert files.read().arrival_s.tolist() == [990.0, 1050.0]
    # A minute ahead is still believed.
    write(tmp_path, "b", ARRIVALS, {"arrival_s": 1080.0 + AHEAD_S}, {"arrival_s": 1081.0 + AHEAD_S})
    assert files.read().arrivals_s.tolist() == [991.0, 1080.0 + AHEAD_S]
    now[0] = 1e9
    assert files.read().arrival_s.tolist() == [1e9]


@pytest.mark.parametrize(
    "torn",
    [{"arrival_s": None}, {"arrival_s": float("nan")}, {"arrival_s": float("inf")}, {"output_tokens": None}],
)
def test_a_row_that_lacks_what_it_is_to_tell_is_left_out(tmp_path: Path, torn: Row) -> None:
    write(tmp_path, "a", REQUESTS, request(1.0), request(2.0) | torn, request(3.0))
    assert SampleFiles(tmp_path).read().arrival_s.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("lacks", ["status", "steps", "e2e_s", "input_tokens"])
def test_a_file_of_a_version_that_tells_less_is_left_out_and_named_once(tmp_path: Path, lacks: str) -> None:
    said: list[str] = []
    files = SampleFiles(tmp_path, tell=said.append)
    write(tmp_path, "a", REQUESTS, request(1.0))
    (other,) = tmp_path.glob("requests-*.parquet")
    parquet.write_table(parquet.read_table(other).drop_columns([lacks]), other)
    write(tmp_path, "b", REQUESTS, request(2.0))
    assert [files.read().arrival_s.tolist() for _ in range(2)] == [[2.0], [2.0]]
    (line,) = said
    assert str(other) in line
    assert lacks in line


def test_a_file_of_a_version_with_other_types_is_read_or_named(tmp_path: Path) -> None:
    write(tmp_path, "a", REQUESTS, request(1.0))
    (path,) = tmp_path.glob("requests-*.parquet")
    table = parquet.read_table(path)

    def told(name: str, values: pa.Array) -> list[str]:
        said: list[str] = []
        parquet.write_table(table.set_column(table.column_names.index(name), name, values), path)
        assert len(SampleFiles(tmp_path, tell=said.append).read()) == 1 - len(said)
        return said

    assert told("status", pa.array(["200"])) == []
    assert told("arrival_s", pa.array(["1.0"])) == []
    assert len(told("status", pa.array(["fine"]))) == 1
    assert len(told("steps", pa.array([[{"stage": "small"}]]))) == 1
