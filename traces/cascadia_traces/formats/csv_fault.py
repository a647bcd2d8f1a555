"""Fault in a CSV that could not be read: the first row to blame, found by reading it again as text."""

from typing import TYPE_CHECKING, Any

from cascadia_traces.errors import BadInput
from cascadia_traces.formats.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


def csv_fault(
    source: Source,
    found: dict[str, int],
    types: dict[str, "pa.DataType"],
    head_lines: int,
    width: int,
    error: Exception,
) -> BadInput:
    """The BadInput for `error`, which pyarrow raised on the columns `found` (our name to position)."""
    import pyarrow as pa
    from pyarrow import csv

    torn: list[Any] = []

    def note(row: Any) -> str:
        torn.append(row)
        return "error"

    options: dict[str, Any] = {
        # Only the serial reader counts rows.
        "read_options": csv.ReadOptions(
            use_threads=False, skip_rows=head_lines, column_names=[str(i) for i in range(width)]
        ),
        "parse_options": csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
        "convert_options": csv.ConvertOptions(
            include_columns=[str(i) for i in found.values()],
            column_types={str(i): pa.binary() for i in found.values()},
        ),
    }
    read = 0
    try:
        with source.opened() as (stream, _), csv.open_csv(stream, **options) as batches:
            for batch in batches:
                faults = [
                    (row, ours, column[row].as_py())
                    for ours, column in zip(found, batch.columns, strict=True)
                    if (row := _first_unreadable(column, types[ours])) is not None
                ]
                if faults:
                    row, ours, value = min(faults)
                    return _unreadable(source, read + row + 1, ours, value, types[ours])
                read += len(batch)
    except pa.ArrowException:
        pass  # The fault is in the shape of a row, told below.
    if torn:
        where = f"{source.name}, row {torn[0].number - head_lines}"
        fields = "1 field" if torn[0].actual_columns == 1 else f"{torn[0].actual_columns} fields"
        what = f"{fields} where the header has {torn[0].expected_columns}"
        return BadInput(where, what, "give every row a value for each column")
    where = f"{source.name}, after row {read}"
    if "straddling" in str(error):
        return BadInput(
            where, "a row is longer than 1 MiB, or a quote never ends", "leave texts out of a trace"
        )
    return BadInput(where, str(error)[:200], "check the rows that follow")


def _first_unreadable(column: "pa.Array", wanted: "pa.DataType") -> int | None:
    if _reads(column, wanted):
        return None
    low, high = 0, len(column)
    # The first bad row is the last of the shortest unreadable prefix.
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(column[:middle], wanted):
            low = middle
        else:
            high = middle
    return low


def _reads(column: "pa.Array", wanted: "pa.DataType") -> bool:
    import pyarrow as pa
    from pyarrow import compute

    try:
        text = column.cast(pa.string())
        if pa.types.is_floating(wanted):
            text = compute.utf8_trim_whitespace(text)  # as the CSV reader does, for numbers only
        if not pa.types.is_string(wanted):
            compute.if_else(compute.equal(text, ""), pa.scalar(None, pa.string()), text).cast(wanted)
    except pa.ArrowException:
        return False
    return True


def _unreadable(source: Source, row: int, ours: str, value: bytes, wanted: "pa.DataType") -> BadInput:
    import pyarrow as pa

    shown = value[:40].decode(errors="backslashreplace")
    where = f"{source.name}, row {row}"
    if pa.types.is_string(wanted):
        return BadInput(where, f"{ours} is not valid UTF-8: {shown!r}", "save the file as UTF-8")
    if pa.types.is_timestamp(wanted):
        return BadInput(where, f"{shown!r} is not a date", "write it like 2023-11-16 18:15:46.680")
    return BadInput(where, f"{ours} is not a number: {shown!r}", "write a number")
