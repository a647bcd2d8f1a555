"""A Trace, whole or in chunks, to Parquet, CSV or JSON Lines; a file is there in full or not at all."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from cascadia_traces.errors import BadInput
from cascadia_traces.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")
ROW_GROUP_ROWS = 1 << 17
"""Small enough that reading in chunks holds little, large enough to compress."""


def write_trace(trace_or_chunks: Trace | Iterable[Trace], path: str | Path) -> int:
    """Writes consecutive parts of a trace in the format of the path's suffix; returns how many requests.

    The file appears under its name only when it is complete: it is written beside it and renamed. Raises
    BadInput for a suffix not in SUFFIXES, a place that cannot be written, chunks that are out of order or
    that differ in their optional columns.
    """
    path = Path(path)
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if path.name.endswith(s)), None)
    if suffix is None:
        raise BadInput(str(path), f"unknown suffix {path.suffix!r}", f"end it in {', '.join(SUFFIXES)}")
    chunks = [trace_or_chunks] if isinstance(trace_or_chunks, Trace) else trace_or_chunks
    write = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}[suffix.split(".")[1]]
    with _replacing(path) as file:
        if suffix.endswith(".gz"):
            # No name and no time inside, so that equal traces give equal bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                return write(_consistent(path, chunks), cast("BinaryIO", packed))
        return write(_consistent(path, chunks), file)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name when all went well, and goes when it did not."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = beside.open("wb")
    except OSError as error:
        instead = "create the directory" if isinstance(error, FileNotFoundError) else "choose another place"
        raise BadInput(str(path), f"cannot be written: {error.strerror}", instead) from error
    try:
        with file:
            yield file
        if path.is_dir():
            raise BadInput(str(path), "this is a directory", "name a file in it")
        beside.replace(path)
    except OSError as error:
        raise BadInput(str(path), f"cannot be written: {error.strerror}", "free some space") from error
    finally:
        beside.unlink(missing_ok=True)


def _consistent(path: Path, chunks: Iterable[Trace]) -> Iterator[Trace]:
    columns: list[str] | None = None
    last_s = 0.0
    for chunk in chunks:
        columns = _columns(chunk) if columns is None else columns
        if _columns(chunk) != columns:
            raise BadInput(str(path), "parts of the trace differ in columns", "give all the same columns")
        if chunk.arrival_s[0] < last_s:
            raise BadInput(str(path), "a part starts before the one ahead of it ends", "order the parts")
        last_s = float(chunk.arrival_s[-1])
        yield chunk
    if columns is None:
        raise BadInput(str(path), "there are no requests to write", "give at least one request")


def _columns(trace: Trace) -> list[str]:
    optional = ("prompt_id", "session_id", "prefix_tokens", "hash_ids")
    given = [name for name in optional if getattr(trace, name) is not None]
    return ["arrival_s", "input_tokens", "output_tokens", *given]


def _table(trace: Trace) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = _columns(trace)
    types = [pa.string() if name.endswith(("_id", "_ids")) else None for name in columns]
    arrays = [pa.array(getattr(trace, name), type=kind) for name, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=columns)


def _write_parquet(chunks: Iterator[Trace], file: BinaryIO) -> int:
    from pyarrow import parquet

    first = next(chunks)
    with parquet.ParquetWriter(file, _table(first).schema, compression="zstd") as writer:
        rows = 0
        for chunk in chain([first], chunks):
            writer.write_batch(_table(chunk), row_group_size=ROW_GROUP_ROWS)
            rows += len(chunk)
    return rows


def _write_csv(chunks: Iterator[Trace], file: BinaryIO) -> int:
    from pyarrow import csv

    first = next(chunks)
    file.write((",".join(_columns(first)) + "\n").encode())
    options = csv.WriteOptions(include_header=False)
    with csv.CSVWriter(file, _table(first).schema, write_options=options) as writer:
        rows = 0
        for chunk in chain([first], chunks):
            writer.write_batch(_table(chunk))
            rows += len(chunk)
    return rows


def _write_jsonl(chunks: Iterator[Trace], file: BinaryIO) -> int:
    rows = 0
    for chunk in chunks:
        names = _columns(chunk)
        # One template for all rows: three times as fast as encoding each as an object.
        template = "{" + ", ".join(f'"{name}": %s' for name in names) + "}\n"
        columns = [_encoded(getattr(chunk, name)) for name in names]
        file.writelines((template % values).encode() for values in zip(*columns, strict=True))
        rows += len(chunk)
    return rows


def _encoded(column: NDArray[np.float64] | NDArray[np.int64] | tuple[str, ...]) -> Iterable[str]:
    """Each value as JSON has it; floats as the shortest text that reads back the same."""
    return map(json.dumps, column) if isinstance(column, tuple) else map(repr, column.tolist())
