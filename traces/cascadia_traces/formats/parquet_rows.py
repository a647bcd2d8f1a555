"""Rows of our own Parquet."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia_traces.arrow import numbers
from cascadia_traces.checks import Numbers
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.detect import find_columns
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

BATCH_ROWS = 1 << 17
TEXT = ("prompt_id", "session_id", "hash_ids")


def read_parquet(source: Source, layout: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows. `on_progress` hears bytes of the file, as if rows were equally long."""
    import pyarrow as pa
    from pyarrow import parquet

    size = source.path.stat().st_size
    read = 0
    try:
        with parquet.ParquetFile(source.path, pre_buffer=False) as file:
            found = find_columns(source, layout, file.schema_arrow.names)
            names = {ours: file.schema_arrow.names[position] for ours, position in found.items()}
            for batch in _batches(file, list(names.values())):
                yield _rows(source, {ours: batch.column(theirs) for ours, theirs in names.items()}, read)
                read += len(batch)
                on_progress(size * read // max(file.metadata.num_rows, 1))
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        # MemoryError: a damaged page may claim any size.
        where = f"{source.name}, after row {read}" if read else source.name
        first_line = (str(error).splitlines() or [""])[0][:120]
        raise BadInput(where, f"truncated or broken Parquet ({first_line})", "write it anew") from error


def _batches(file: "ParquetFile", columns: list[str]) -> "Iterator[pa.RecordBatch]":
    # One row group at a time: asked for all of them, pyarrow keeps the bytes of those behind us.
    for group in range(file.num_row_groups):
        yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)


def _rows(source: Source, columns: dict[str, "pa.Array"], read: int) -> Rows:
    number = np.arange(read + 1, read + 1 + len(columns["arrival_s"]), dtype=np.int64)
    values: dict[str, Any] = {
        ours: _texts(source, ours, column) if ours in TEXT else _numbers(source, ours, column)
        for ours, column in columns.items()
    }
    return Rows(number, **values)


def _numbers(source: Source, ours: str, column: "pa.Array") -> Numbers:
    import pyarrow as pa

    if pa.types.is_int64(column.type) and column.null_count == 0 and ours != "arrival_s":
        return numbers(column)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise BadInput(source.name, f"column {ours!r} holds {column.type}", "write it as numbers")
    return numbers(column.cast(pa.float64(), safe=False))


def _texts(source: Source, ours: str, column: "pa.Array") -> list[str]:
    import pyarrow as pa

    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise BadInput(source.name, f"column {ours!r} holds {column.type}", "write it as text")
    return ["" if text is None else text for text in column.cast(pa.string()).to_pylist()]
