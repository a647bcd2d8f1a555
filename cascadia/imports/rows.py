"""Rows of a file, whatever program wrote it: JSON lines, JSON, CSV, Parquet, Arrow, a Hugging Face data set as
`save_to_disk` leaves it, a server's log. Each row with where it stands."""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cascadia.domain.errors import BadInput
from cascadia.imports.conversations import is_conversation, turns
from cascadia.imports.fields import at
from cascadia.imports.lm_eval import NAME, answers, are_samples, sample_files
from cascadia.imports.vllm_log import is_vllm_log, requests_logged
from cascadia.planner.problem.trace_file import told_as_ours
from cascadia_traces.formats.source import GZIP_MAGIC, refuse_compressed

MAX_BYTES = 4_000_000_000
ARROW_ENDS = (".arrow", ".feather")
DELIMITERS = ",\t;"
_HALF_A_SIGN = re.compile(
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}",
    re.IGNORECASE,
)
"""Half of a pair of escapes, as a text that was cut leaves it: no encoding can write it."""

_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
_SPLIT = re.compile(r"(train|test|validation|valid|val|dev|eval)(?![a-zA-Z])")
"""Names of splits in names of files, as the hub writes them and as people do."""

Row = Mapping[str, Any]


class Rows(NamedTuple):
    """`kind` is the format where the file's own shape tells it, else "table"; `unit` is what `where` counts."""

    kind: str
    unit: str
    rows: list[Row]


def read_rows(path: Path, split: str | None = None) -> Rows:
    """All rows of `path`. `split` names one part of a data set that has several. Raises `BadInput`."""
    if path.is_dir():
        files = sample_files(path)
        if not files or split is not None:
            return _of_folder(path, split)
        return Rows(NAME, "sample", [row for file in files for row in answers(file, _of_file(file).rows)])
    if not path.is_file():
        raise BadInput(str(path), "no such file", "name a log, a table or a data set's folder")
    if split is not None:
        raise BadInput("--split", f"{path} is a file, and has no splits", "leave it out")
    if path.stat().st_size > MAX_BYTES:
        raise BadInput(str(path), f"is larger than {MAX_BYTES:,} bytes", "import it in parts")
    found = _of_file(path)
    if found.rows and are_samples(path, found.rows):
        return Rows(NAME, found.unit, answers(path, found.rows))
    return found


def _of_file(path: Path) -> Rows:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        return Rows("table", "row", _parquet(path))
    if name.endswith(ARROW_ENDS):
        return Rows("table", "row", _arrow(path))
    return _of_text(path, _text(path), is_csv=name.endswith((".csv", ".tsv")))


def _of_text(path: Path, text: str, *, is_csv: bool) -> Rows:
    start = text.lstrip()[:1]
    if is_csv:
        return Rows("table", "row", _csv(path, text))
    if not start:
        raise BadInput(str(path), "the file is empty", "name a file with requests in it")
    if is_vllm_log(text):
        return Rows("vllm-log", "request", list(requests_logged(text)))
    if start not in "[{":
        return Rows("table", "row", _csv(path, text))
    text = _HALF_A_SIGN.sub(r"\\ufffd", text)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _shaped(path, _lines(path, text), "line")
    return _shaped(path, whole if isinstance(whole, list) else _unfolded(path, whole), "entry")


def _shaped(path: Path, rows: list[Any], unit: str) -> Rows:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise BadInput(f"{path} {unit} {number}", "is not an object", "write one object a request")
    if rows and is_conversation(rows[0]):
        return Rows("sharegpt", "turn", [turn for row in rows for turn in turns(row)])
    if len(rows) == 1 and "input_lens" in rows[0]:
        return Rows("vllm-bench", "request", _columns_as_rows(path, rows[0]))
    return Rows("table", unit, rows)


def _unfolded(path: Path, whole: Mapping[str, Any]) -> list[Any]:
    """Requests that a program's one object holds: GuideLLM's benchmarks, AIPerf's inputs, an API's page of `data`."""
    if isinstance(whole.get("benchmarks"), list):
        lists = [at(benchmark, "requests.successful") or [] for benchmark in whole["benchmarks"]]
        return [row for rows in lists for row in _listed(path, rows, "requests.successful")]
    data = whole.get("data")
    if not isinstance(data, list):
        return [whole]
    if data and isinstance(data[0], Mapping) and "payloads" in data[0]:
        return [
            {"id": f"{name}#{turn}", "session_id": name, **payload}
            for number, session in enumerate(_listed(path, data, "data"), 1)
            for name in [at(session, "session_id") or number]
            for turn, payload in enumerate(_listed(path, session.get("payloads"), "payloads"), 1)
        ]
    return data


def _listed(path: Path, value: Any, name: str) -> list[Mapping[str, Any]]:
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        return value
    raise BadInput(str(path), f"its {name} is no list of objects", "name the file as the program wrote it")


def _columns_as_rows(path: Path, result: Mapping[str, Any]) -> list[Row]:
    """One row a request of `vllm bench serve --save-detailed`, which writes a list a column; failed ones left out."""
    names = {
        "start_times": "arrival_s",
        "input_lens": "input_tokens",
        "output_lens": "output_tokens",
        "generated_texts": "response",
        "errors": "error",
    }
    lists = {ours: result[theirs] for theirs, ours in names.items() if isinstance(result.get(theirs), list)}
    if len({len(values) for values in lists.values()}) > 1:
        raise BadInput(str(path), "its lists differ in length", "save the result anew, with --save-detailed")
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    return [row for row in rows if not row.pop("error", None)]


def _lines(path: Path, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else "unreadable"
            raise BadInput(
                f"{path} line {number}", f"is not JSON ({said})", "write one object a line"
            ) from None
    return rows


def _csv(path: Path, text: str) -> list[Row]:
    csv.field_size_limit(sys.maxsize)
    head = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=head.count))
    rows: list[Row] = []
    try:
        names = reader.fieldnames or ()
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise BadInput(
                str(path), f"two columns are called {', '.join(twice)}", "give each a name of its own"
            )
        for number, row in enumerate(reader, 1):
            if None in row or None in row.values():
                raise BadInput(f"{path} row {number}", "has not as many fields as the header", "mend it")
            rows.append(row)
    except csv.Error as error:
        raise BadInput(str(path), f"cannot be read as CSV ({error})", "write the file anew") from None
    return rows


def _of_folder(folder: Path, split: str | None) -> Rows:
    """A data set of `save_to_disk` (Arrow streams that `state.json` lists), of splits, or a folder of Parquet."""
    if (folder / "dataset_dict.json").is_file():
        splits = _named(folder / "dataset_dict.json", "splits")
        return _of_folder(folder / _chosen(folder, list(map(str, splits)), split), None)
    if (folder / "state.json").is_file():
        if split is not None:
            raise BadInput("--split", f"{folder} holds one split alone", "leave it out")
        files = [folder / str(at(one, "filename")) for one in _named(folder / "state.json", "_data_files")]
    else:
        files = sorted((*folder.glob("*.parquet"), *(folder / "data").glob("*.parquet")))
        splits = list(dict.fromkeys(map(_split_of, files)))
        if split is not None or (len(splits) > 1 and all(splits)):
            chosen = _chosen(folder, [name for name in splits if name], split)
            files = [file for file in files if _split_of(file) == chosen]
    if not files:
        raise BadInput(
            str(folder), "holds no data set", "name a folder of save_to_disk, or one with .parquet files"
        )
    rows: list[Row] = []
    for file in files:
        rows.extend(_arrow(file) if file.suffix in ARROW_ENDS else _parquet(file))
    return _shaped(folder, rows, "row")


def _split_of(file: Path) -> str:
    """Split that a Parquet file is of by its name, such as `train-00000-of-00001.parquet`; empty where it tells
    none."""
    known = _SHARD.fullmatch(file.stem) or _SPLIT.match(file.stem)
    return known[1] if known else ""


def _chosen(folder: Path, splits: list[str], asked: str | None) -> str:
    """The split that is asked for, or the only one. Raises `BadInput`."""
    if asked is None and len(splits) == 1:
        return splits[0]
    if asked in splits:
        return asked
    said = f"has splits {', '.join(splits)}" if splits else "has no splits by its files' names"
    raise BadInput(str(folder), said, "choose one: --split NAME" if splits else "leave --split out")


def _named(path: Path, name: str) -> list[Any]:
    """Entries of a list in a data set's own JSON."""
    try:
        found = at(json.loads(_text(path)), name)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, "JSON", error) from None
    if not isinstance(found, list):
        raise BadInput(str(path), f"has no list of {name}", "save the data set anew")
    return found


def _parquet(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with pa.parquet.ParquetFile(path) as file:
            return list(_plain(file.read()))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, "Parquet", error) from None


def _arrow(path: Path) -> list[Row]:
    """Rows of an Arrow stream, as `datasets` writes it, or of an Arrow file."""
    import pyarrow as pa
    import pyarrow.ipc

    try:
        with pa.memory_map(str(path)) as source:
            try:
                return list(_plain(pa.ipc.open_stream(source).read_all()))
            except pa.ArrowInvalid:
                source.seek(0)
                return list(_plain(pa.ipc.open_file(source).read_all()))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, "Arrow", error) from None


def _plain(table: Any) -> Iterator[Row]:
    yield from table.to_pylist()


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        with told_as_ours():
            refuse_compressed(str(path), data[:8])
        data = gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            str(path), f"is not UTF-8 text (byte {error.start})", "is this the right file?"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, "text", error) from None


def _unreadable(path: Path, kind: str, error: Exception) -> BadInput:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
    return BadInput(str(path), f"cannot be read as {kind} ({said})", "write the file anew")
