"""Each bad file gives one line: where, what, and what to write instead."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cascadia_traces.formats.reading import iter_trace, read_trace
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import BadInput
from tests.unit.traces.samples import AZURE, MOONCAKE, file_of, trace_of

HEAD = "arrival_s,input_tokens,output_tokens\n"
AZURE_DAYS = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,1,1\n2023-11-16,1,1\n"
OPENAI = '{{"created": {}, "usage": {{"prompt_tokens": 1, "completion_tokens": 1}}}}\n'


def row(*values: object) -> str:
    return '{{"arrival_s": {}, "input_tokens": {}, "output_tokens": {}}}\n'.format(*values)


BAD_FILES = {
    "empty": ("", "trace: the file is empty"),
    "blank": (" \n\n", "trace: the file is empty"),
    "empty gzip": (gzip.compress(b""), "trace: the file is empty"),
    "header only": (HEAD, "trace: it holds no requests"),
    "unsorted": (HEAD + "0,1,1\n2,1,1\n1,1,1\n", "trace, row 3: the arrival time 1 s is before the previous"),
    "negative time": (HEAD + "0,1,1\n-1,1,1\n", "trace, row 2: the arrival time -1 s is negative"),
    "negative length": (HEAD + "0,1,1\n1,-7,1\n", "trace, row 2: input_tokens is -7; write a whole number"),
    "zero length": (HEAD + "0,1,0\n", "trace, row 1: output_tokens is 0; write a whole number from 1"),
    "half a token": (HEAD + "0,1.5,1\n", "trace, row 1: input_tokens is 1.5; write a whole number"),
    "NaN time": (HEAD + "0,1,1\nnan,1,1\n", "trace, row 2: the arrival time is NaN or missing"),
    "NaN length": (HEAD + "0,1,nan\n", "trace, row 1: output_tokens is NaN or missing"),
    "missing value": (HEAD + "0,1,1\n1,,1\n", "trace, row 2: input_tokens is NaN or missing"),
    "infinite": (HEAD + "0,1,1\ninf,1,1\n", "trace, row 2: the arrival time inf s is beyond"),
    "days alone": (AZURE_DAYS, "trace, row 1: '2023-11-16' is a day without a time; write a date like"),
    "a day alone": (OPENAI.format('"2026-11-26"'), "'2026-11-26' is not a date with a time of day"),
    "digits of a date": (OPENAI.format(20261126100001), "trace, line 1: the arrival time is NaN or missing"),
    "milliseconds": (HEAD + "1.7e12,1,1\n", "write seconds, not ms"),
    "text for a number": (HEAD + "0,1,1\n1,two,1\n", "trace, row 2: input_tokens is not a number: 'two'"),
    "first of two bad": (HEAD + "0,1,1\n1,1,b\n2,a,1\n", "trace, row 2: output_tokens is not a number: 'b'"),
    "a field too few": (HEAD + "0,1,1\n1,1\n", "trace, row 2: 2 fields where the header has 3"),
    "a field too many": (HEAD + "0,1,1\n1,1,1,1\n", "trace, row 2: 4 fields where the header has 3"),
    "a row of megabytes": (
        HEAD.strip() + ",prompt\n0,1,1,a\n1,1,1," + "x" * 5_000_000 + "\n",
        "trace, after row [01]: a row is longer than 1 MiB, or a quote never ends; leave texts out",
    ),
    "missing column": ("arival_s,input_tokens,output_tokens\n0,1,1\n", "the nearest is 'arival_s': rename it"),
    "no such columns": ("a,b\n1,2\n", "no column .*and none .*and none .*; the columns are a, b; a trace needs"),
    "twice a column": ("arrival_s," + HEAD + "0,0,1,1\n", "trace: 2 columns are called 'arrival_s'"),
    "bad date": (AZURE + "yesterday,1,1\n", "trace, row 3: 'yesterday' is not a date; write it like 2023-"),
    "dates unsorted": (AZURE + "2023-11-16 18:15:40,1,1\n", "trace, row 3: .* is before the previous one"),
    "binary": (b"\x00\x01\x02" * 9, "trace: binary data, but not Parquet; give one of azure,"),
    "invalid UTF-8": (HEAD.encode() + b"0,1,1\n1,\xff,1\n", "trace, line 3: not valid UTF-8"),
    "late invalid UTF-8": (
        b"session_id," + HEAD.encode() + b"s,0,1,1\n" * 9000 + b"\xff,1,1,1\n",
        "trace, row 9001: session_id is not valid UTF-8",
    ),
    "a JSON array": ("[]", "trace: a JSON array; write one JSON object a line"),
    "not JSON": (row(0, 1, 1) + "{oops}\n", "trace, line 2: not JSON: .* at character 2"),
    "two objects in a line": (row(0, 1, 1) + "{}, {}\n", "trace, line 2: not JSON: Extra data"),
    "nested too deeply": (row(0, 1, 1) + "[" * 100_000, "trace, line 2: nested too deeply"),
    "no object": (row(0, 1, 1) + "17\n", "trace, line 2: a JSON int, not an object"),
    "unknown object": ('{"a": 1}\n', "trace, line 1: the object has none of a trace's fields"),
    "key missing later": (row(0, 1, 1) + '\n{"arrival_s": 1}\n', "trace, line 3: no 'input_tokens'"),
    "JSON text": (row(0, 1, 1) + row(1, '"1"', 1), 'trace, line 2: input_tokens is not a number: "1"'),
    "JSON true": (row(0, "true", 1), "trace, line 1: input_tokens is not a number: true"),
    "JSON null": (row(0, "null", 1), "trace, line 1: input_tokens is NaN or missing"),
    "JSON NaN": (row("NaN", 1, 1), "trace, line 1: the arrival time is NaN"),
    "a huge number": (row(0, "9" * 400, 1), "trace, line 1: input_tokens is too large"),
    "too many digits": (row(0, "9" * 5000, 1), "trace, line 1: not JSON: Exceeds the limit"),
    "half a character": (
        '{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1, "prompt_id": "\\ud800"}',
        "trace, line 1: prompt_id holds half a character",
    ),
    "bad hashes": (MOONCAKE + '{"timestamp": 40000, "input_length": 1, "output_length": 1, "hash_ids": 3}',
                   "trace, line 5: hash_ids is not a list of numbers"),
    "no usage": ('{"created": 1700000000}\n', "trace, line 1: no usage; write token counts, as in"),
    "no time": ('{"usage": {"prompt_tokens": 1, "completion_tokens": 1}}', "trace, line 1: no time of the"),
    "all failed": ('{"created": 1700000000, "error": "x"}\n', "trace: all 1 requests failed"),
    "broken gzip": (gzip.compress(HEAD.encode() * 999)[:-20], "trace: broken gzip"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gives_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    content, told = BAD_FILES[name]
    with pytest.raises(BadInput, match=told) as raised:
        read_trace(file_of(tmp_path, content))
    assert str(raised.value).startswith(str(tmp_path))
    assert "\n" not in str(raised.value)
    assert raised.value.instead


def test_rows_are_counted_through_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cascadia_traces.formats.csv_rows.BLOCK_BYTES", 64)
    path = file_of(tmp_path, HEAD + "".join(f"{i},1,1\n" for i in range(500)) + "3,1,1\n")
    with pytest.raises(BadInput, match=r"row 501: .* 3 s is before the previous one, 499 s"):
        list(iter_trace(path, rows=7))


def test_a_line_without_an_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cascadia_traces.formats.json_lines.BATCH_BYTES", 100)
    monkeypatch.setattr("cascadia_traces.formats.json_lines.LONGEST_LINE_BYTES", 1000)
    path = file_of(tmp_path, row(0, 1, 1) + '{"arrival_s": ' + "1" * 5000)
    with pytest.raises(BadInput, match="line 2: longer than 64 MiB; one object a line"):
        read_trace(path)


def test_lines_are_counted_through_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cascadia_traces.formats.json_lines.BATCH_BYTES", 50)
    path = file_of(tmp_path, "".join(row(i, 1, 1) + "\n" for i in range(50)) + "oops")
    with pytest.raises(BadInput, match="line 101: not JSON"):
        read_trace(path)


def test_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="this is a directory"):
        read_trace(tmp_path)
    with pytest.raises(BadInput, match=r"nowhere\.csv: no such file; check the path"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(BadInput, match="NUL"):
        read_trace("a\0b")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="not a regular file"):
        read_trace(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = file_of(tmp_path, AZURE)
    path.chmod(0)
    with pytest.raises(BadInput, match="not allowed to read it"):
        read_trace(path)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_truncated_parquet_is_named(tmp_path: Path, share: float) -> None:
    write_trace(trace_of(range(100)), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    with pytest.raises(BadInput, match=r"truncated or broken Parquet .*; write it anew"):
        read_trace(file_of(tmp_path, whole[: int(share * len(whole))]))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"arrival_s": [0.0], "input_tokens": [1]}, "no column 'output_tokens'"),
        ({"arrival_s": ["0"], "input_tokens": [1], "output_tokens": [1]}, "'arrival_s' holds string"),
        ({"arrival_s": [0.0, None], "input_tokens": [1, 1], "output_tokens": [1, 1]}, "row 2: the arrival"),
        ({"arrival_s": [0.0, 1.0], "input_tokens": [1, 1], "output_tokens": [1, None]}, "row 2: output_tok"),
        ({"arrival_s": [0.0], "input_tokens": [[1]], "output_tokens": [1]}, "'input_tokens' holds list"),
        ({"arrival_s": [], "input_tokens": [], "output_tokens": []}, "'arrival_s' holds null|no requests"),
    ],
)
def test_a_parquet_of_other_columns_is_named(
    tmp_path: Path, columns: dict[str, list[object]], told: str
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "trace.parquet")
    with pytest.raises(BadInput, match=told):
        read_trace(tmp_path / "trace.parquet")


def test_parquet_of_other_number_types_is_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "arrival_s": pa.array([0, 1], pa.int32()),
            "input_tokens": pa.array([3.0, 4.0], pa.float32()),
            "output_tokens": pa.array([5, 6], pa.uint16()),
            "prompt_id": pa.array([7, None], pa.int64()),
        }
    )
    parquet.write_table(table, tmp_path / "trace.parquet")
    trace = read_trace(tmp_path / "trace.parquet")
    assert (trace.arrival_s.dtype, trace.input_tokens.dtype) == (np.float64, np.int64)
    assert (trace.output_tokens.tolist(), trace.prompt_id) == ([5, 6], ("7", ""))


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown format 'mooncakes'; write mooncake"):
        read_trace(file_of(tmp_path, AZURE), "mooncakes")
    with pytest.raises(BadInput, match="read as parquet, but the file does not hold Parquet"):
        read_trace(file_of(tmp_path, AZURE), "parquet")
