"""The three formats of a quality table, read as Arrow tables; whatever is no such file is refused."""

import json
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.trace_file import told_as_ours
from cascadia_traces.formats.names import other_separator
from cascadia_traces.formats.source import GZIP_MAGIC, refuse_compressed

_MEND = {
    "parquet": "write the file anew",
    "csv": "give each row as many cells as the header has, quoting cells with commas",
    "jsonl": "write one object a line",
}
LONGEST_HEAD = 1 << 16
_BLOCK_BYTES = 16 << 20
"""A row must fit in one; some hold a prompt and its answer."""


def kind_of(path: Path) -> str:
    """`parquet`, `csv` or `jsonl`, by the file's name."""
    kind = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(
        path.suffix.lower()
    )
    if kind is None:
        raise BadInput(
            str(path), "not a known kind of quality table", "end its name in .parquet, .csv or .jsonl"
        )
    return kind


def read_arrow(path: Path, columns: tuple[str, ...]) -> Any:
    """The file as an Arrow table; identifiers stay text, so that `007` is not 7."""
    import pyarrow as pa

    if path.is_dir():
        raise BadInput(str(path), "is a directory", "name a quality table in it")
    kind = kind_of(path)
    if not path.is_file():
        raise BadInput(str(path), "no such file", "name a quality table, e.g. quality.parquet")
    try:
        if path.stat().st_size == 0:
            raise BadInput(str(path), "the file is empty", f"write columns {', '.join(columns)}")
        _refuse_packed(path)
        table = {"parquet": _read_parquet, "csv": _read_csv, "jsonl": _read_jsonl}[kind](path)
        # Arrow trusts text that it reads; in a damaged file it may be no text at all, names included.
        table.validate(full=True)
        return table.rename_columns(table.column_names).replace_schema_metadata(table.schema.metadata)
    except PermissionError:
        raise BadInput(str(path), "cannot be read (permission denied)", "check its permissions") from None
    except UnicodeDecodeError:
        raise BadInput(str(path), "is not UTF-8 text", "save it as UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        if "invalid UTF8" in str(error):
            raise BadInput(str(path), "is not UTF-8 text", "save it as UTF-8") from None
        if kind == "jsonl" and (fault := _jsonl_fault(path)) is not None:
            raise fault from None
        said = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        raise BadInput(str(path), f"cannot be read as {kind} ({said})", _MEND[kind]) from error


def _refuse_packed(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(GZIP_MAGIC):
        raise BadInput(str(path), "is compressed by gzip", "unpack it")
    with told_as_ours():
        refuse_compressed(str(path), start)


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet

    # One small local file: neither memory mapping nor a data set's discovery pays.
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read()


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv

    with path.open(encoding="utf-8-sig") as file:
        head = file.readline(LONGEST_HEAD).strip()
    if "," not in head and (instead := other_separator([head])):
        raise BadInput(str(path), f"its cells are separated by {instead}", "save it with commas between them")
    text = {name: pa.string() for name in ("prompt_id", "stage")}
    return pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(block_size=_BLOCK_BYTES),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(column_types=text),
    )


def _read_jsonl(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.json

    blocks = pa.json.ReadOptions(block_size=_BLOCK_BYTES)
    text = pa.schema([(name, pa.string()) for name in ("prompt_id", "stage")])
    try:
        return pa.json.read_json(path, blocks, pa.json.ParseOptions(explicit_schema=text))
    except pa.ArrowInvalid:
        # Identifiers written as numbers are no text to Arrow; any other fault shows again.
        return pa.json.read_json(path, blocks)


_JSON_KINDS = {
    bool: "a truth",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def _jsonl_fault(path: Path) -> BadInput | None:
    """The first line that Arrow cannot read as those before it; None where each is fine alone and beside them."""
    first: dict[str, tuple[str, int]] = {}
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path} line {number}"
            try:
                row = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError) as error:
                said = error.msg if isinstance(error, json.JSONDecodeError) else "unreadable"
                return BadInput(where, f"is not JSON ({said})", _MEND["jsonl"])
            if not isinstance(row, dict):
                return BadInput(where, "is not an object", _MEND["jsonl"])
            for name, value in row.items():
                kind = _JSON_KINDS.get(type(value))
                known, before = first.setdefault(name, (kind, number)) if kind else (kind, number)
                if known != kind:
                    said = f"its {name} is {kind}, and in line {before} {known}"
                    return BadInput(where, said, "write all values of a column alike")
    return None
