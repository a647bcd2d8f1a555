"""The rows of a file of prompts, each with where it stands: JSON lines, CSV or Parquet, told by the file's name."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia_traces.formats.names import other_separator

MAX_BYTES = 1_000_000_000
FORM = 'write prompt_id and prompt, e.g. {"prompt_id": "q1", "prompt": "What is 2 + 2?"}'

Rows = Iterator[tuple[str, Mapping[str, Any]]]


def prompt_rows(path: Path) -> Rows:
    """(where, row) of each; what is absent from a row is not in it. Raises `BadInput`."""
    reader = {".jsonl": _of_lines, ".ndjson": _of_lines, ".csv": _of_csv, ".parquet": _of_parquet}.get(
        path.suffix.lower()
    )
    if reader is None:
        raise BadInput(
            str(path), "not a known kind of prompt file", "end its name in .jsonl, .csv or .parquet"
        )
    return reader(path)


def _of_lines(path: Path) -> Rows:
    for number, line in enumerate(_content(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else "unreadable"
            raise BadInput(where, f"is not JSON ({said})", FORM) from None
        if not isinstance(row, dict):
            raise BadInput(where, "is not a JSON object", FORM)
        yield where, row


def _of_csv(path: Path) -> Rows:
    csv.field_size_limit(sys.maxsize)
    reader = csv.DictReader(io.StringIO(_content(path), newline=""), strict=True)
    line = 1
    try:
        if instead := other_separator(reader.fieldnames or ()):
            raise BadInput(
                str(path), f"its cells are separated by {instead}", "save it with commas between them"
            )
        for row in reader:
            if None in row:
                raise BadInput(
                    f"{path} line {reader.line_num}", "has more cells than the header", "quote commas"
                )
            # Everything in CSV is text: what is not there is empty, and what has structure is JSON.
            found: dict[str, Any] = {key: value for key, value in row.items() if value}
            if "messages" in found:
                found["messages"] = _json(found["messages"])
            yield f"{path} line {reader.line_num}", found
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(
            f"{path} line {line}", f"is not CSV ({error})", "quote text with commas or quotes"
        ) from None


def _of_parquet(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pa.parquet.read_table(path)
    except FileNotFoundError:
        raise BadInput(str(path), "no such file", "check the path") from None
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            str(path), f"cannot be read as parquet ({str(error)[:120]})", "write the file anew"
        ) from None
    for number, row in enumerate(table.to_pylist(), 1):
        yield f"{path} row {number}", {key: value for key, value in row.items() if value is not None}


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(str(path), f"is larger than {MAX_BYTES:,} bytes", "is this the right file?")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            str(path), f"is not UTF-8 text (byte {error.start})", "is this the right file?"
        ) from None
    except FileNotFoundError:
        raise BadInput(str(path), "no such file", "check the path") from None
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be read ({error.strerror})", "check the path and its permissions"
        ) from None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
