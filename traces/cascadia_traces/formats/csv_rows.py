"""Rows of the CSV formats, by pyarrow: no Python loop sees a row, unless to say which one is bad."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia_traces.arrow import numbers
from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.csv_fault import csv_fault
from cascadia_traces.formats.detect import find_columns, first_value, header
from cascadia_traces.formats.epoch import epoch_s, is_day
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 1 << 20
"""pyarrow reads some 32 blocks ahead; a row must fit in one."""
TEXT = ("prompt_id", "session_id", "hash_ids")


def read_csv(source: Source, layout: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows; a row that cannot be parsed is named by BadInput."""
    import pyarrow as pa
    from pyarrow import csv

    head_lines, names = header(source)
    found = find_columns(source, layout, names)
    first = first_value(source, head_lines, found["arrival_s"])
    dated = layout.dated or (layout.epoch and not _is_number(first))
    if dated and is_day(first):
        said = f"{first!r} is a day without a time"
        raise BadInput(f"{source.name}, row 1", said, "write a date like 2023-11-16 18:15:46.680")
    types = {ours: _type(ours, dated, first) for ours in found}
    # Names of our own making, so that neither duplicates nor odd headers reach pyarrow.
    arguments: dict[str, Any] = {
        "read_options": csv.ReadOptions(
            block_size=BLOCK_BYTES, skip_rows=head_lines, column_names=[str(i) for i in range(len(names))]
        ),
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            include_columns=[str(i) for i in found.values()],
            column_types={str(found[ours]): types[ours] for ours in found},
            null_values=[""],
        ),
    }
    read = 0
    origin_ns: int | None = None
    try:
        with source.opened() as (stream, below), csv.open_csv(stream, **arguments) as batches:
            for batch in batches:
                columns = dict(zip(found, batch.columns, strict=True))
                if dated:
                    origin_ns = _first_ns(columns["arrival_s"]) if origin_ns is None else origin_ns
                    columns["arrival_s"] = _seconds_since(columns["arrival_s"], origin_ns)
                elif layout.epoch:
                    columns["arrival_s"] = epoch_s(numbers(columns["arrival_s"]))
                yield _rows(columns, read)
                read += len(batch)
                on_progress(below.tell())
    except pa.ArrowException as error:
        raise csv_fault(source, found, types, head_lines, len(names), error) from error


def _type(ours: str, dated: bool, first: str) -> "pa.DataType":
    import pyarrow as pa

    if ours in TEXT:
        return pa.string()
    if ours == "arrival_s" and dated:
        return pa.timestamp("ns", "UTC" if _zoned(first) else None)
    # Lengths are read as floating point too, so that NaN and 1.5 are told apart from text.
    return pa.float64()


def _zoned(date: str) -> bool:
    """Tells whether dates end in Z or an offset, as in the Azure traces of 2024, from the first row."""
    return date.endswith("Z") or "+" in date[10:] or "-" in date[10:]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text
    return True


def _first_ns(dates: "pa.Array") -> int | None:
    import pyarrow as pa
    from pyarrow import compute

    first = compute.drop_null(dates).cast(pa.int64())[:1].to_pylist()
    return first[0] if first else None


def _seconds_since(dates: "pa.Array", origin_ns: int | None) -> Floats:
    import pyarrow as pa

    whole_ns = numbers(dates.cast(pa.int64()).fill_null(0))
    # Subtracted as whole nanoseconds: a double holds an epoch only to a quarter of a microsecond.
    seconds = (whole_ns - (origin_ns or 0)) / 1e9
    if dates.null_count:
        seconds[np.asarray(dates.is_null())] = np.nan
    return np.asarray(seconds, dtype=np.float64)


def _rows(columns: dict[str, Any], read: int) -> Rows:
    number = np.arange(read + 1, read + 1 + len(columns["input_tokens"]), dtype=np.int64)
    values: dict[str, Any] = {}
    for ours, column in columns.items():
        if ours in TEXT:
            values[ours] = ["" if text is None else text for text in column.to_pylist()]
        elif isinstance(column, np.ndarray):
            values[ours] = column
        else:
            values[ours] = numbers(column)
    return Rows(number, **values)
