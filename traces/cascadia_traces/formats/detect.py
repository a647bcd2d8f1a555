"""Format of a file, told from its content; never from its name."""

import csv
import difflib
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from cascadia_traces.errors import BadInput
from cascadia_traces.formats.layout import LAYOUTS, Layout, csv_layouts
from cascadia_traces.formats.names import (
    COUNTS,
    OPENAI_TIMES,
    is_known,
    nearest,
    other_separator,
    plain,
    unit_in,
)
from cascadia_traces.formats.source import HEAD_BYTES, LONGEST_LINE_BYTES, Source

PARQUET_MAGIC = b"PAR1"
BOM = b"\xef\xbb\xbf"
JSON_KEYS = {
    "mooncake": {"hash_ids", "input_length", "output_length"},
    "qwen": {"hash_ids", "input_length", "output_length", "chat_id", "parent_chat_id"},
    "jsonl": {"arrival_s", "input_tokens", "output_tokens"},
    "openai": {"usage", "response", "choices", "created", "created_at", "prompt_tokens", "completion_tokens"},
}


def layout_of(source: Source, name: str | None = None) -> Layout:
    """The layout called `name`, or else the one that the content shows."""
    if name is None:
        return _detected(source)
    if name not in LAYOUTS:
        near = difflib.get_close_matches(name, LAYOUTS, n=1)
        raise BadInput("format", f"unknown format {name!r}", f"write {(near or ['one of ' + _names()])[0]}")
    layout = LAYOUTS[name]
    if name == "openai" and not _is_parquet(source) and not text_head(source).lstrip().startswith("{"):
        layout = next((each for each in csv_layouts(header(source)[1]) if each.name == name), layout)
    if (layout.kind == "parquet") != _is_parquet(source):
        holds = "holds" if _is_parquet(source) else "does not hold"
        raise BadInput(source.name, f"read as {name}, but the file {holds} Parquet", "leave out the format")
    return layout


def header(source: Source) -> tuple[int, list[str]]:
    """The number of lines up to and with a CSV's header, and the header's column names."""
    # Not splitlines, which also breaks at characters that a CSV may hold.
    lines = re.split("\r\n|\n|\r", text_head(source))
    for index, line in enumerate(lines):
        if line.strip():
            if not any(rest.strip() for rest in lines[index + 1 :]) and len(source.head) < HEAD_BYTES:
                raise BadInput(source.name, "it holds no requests", "give a row below the header")
            return index + 1, [name.strip() for name in next(csv.reader([line]))]
    raise BadInput(source.name, "no header in the first 64 KiB", "start with a line of column names")


def first_value(source: Source, head_lines: int, column: int) -> str:
    """Value of the first row, `head_lines` below the top, in the column at this position; blank if nothing."""
    below = re.split("\r\n|\n|\r", text_head(source))[head_lines:]
    row = next(csv.reader(line for line in below if line.strip()), [])
    return row[column].strip() if column < len(row) else ""


def find_columns(source: Source, layout: Layout, names: Sequence[str]) -> dict[str, int]:
    """Position of each of the layout's columns among `names`; raises for all required ones that are not there."""
    positions: dict[str, int] = {}
    missing: list[str] = []
    for ours, theirs in layout.columns.items():
        found = [i for i, name in enumerate(names) if plain(name) == plain(theirs)]
        if len(found) > 1:
            raise BadInput(source.name, f"{len(found)} columns are called {theirs!r}", "keep one of them")
        if found:
            positions[ours] = found[0]
        elif theirs in layout.required:
            missing.append(theirs)
    if missing and (instead := other_separator(names)):
        raise BadInput(
            source.name, f"its cells are separated by {instead}", "save it with commas between them"
        )
    if missing:
        said = f"no column {' and none '.join(map(repr, missing))}"
        raise BadInput(source.name, said, _rename(missing[0], names, layout))
    return positions


def text_head(source: Source) -> str:
    """The head as text; raises where it is not UTF-8 or its first line holds NUL."""
    head = source.head.removeprefix(BOM)
    if b"\0" in head.lstrip().split(b"\n", 1)[0]:
        raise BadInput(source.name, "binary data, but not Parquet", f"give one of {_names()}")
    # A character may be cut in two by the end of the head.
    cut = len(head) - 3 if len(source.head) == HEAD_BYTES else len(head)
    try:
        head[:cut].decode()
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{source.name}, line {line}", "not valid UTF-8", "save it as UTF-8") from error
    return head.decode(errors="ignore")


def _detected(source: Source) -> Layout:
    if _is_parquet(source):
        return LAYOUTS["parquet"]
    text = text_head(source).lstrip()
    if text.startswith("{"):
        return _of_json(source, text)
    if text.startswith("["):
        raise BadInput(source.name, "a JSON array", "write one JSON object a line (JSONL)")
    _, names = header(source)
    return _of_csv(source, names)


def _of_csv(source: Source, names: Sequence[str]) -> Layout:
    """A format is told by names that belong together; one name alone, such as `timestamp`, is everybody's."""
    formats = csv_layouts(names)
    whole = [layout for layout in formats if _hits(layout.required, names) == 3]
    if len(whole) > 1:
        pairs = " and ".join(f"{layout.input_tokens!r} with {layout.output_tokens!r}" for layout in whole)
        raise BadInput(source.name, f"its columns count tokens twice: {pairs}", "keep one pair")
    if whole:
        return whole[0]
    paired = [layout for layout in formats if _hits(layout.required[1:], names) == 2]
    if not paired:
        _refuse_mixture(source, names)
    return max(paired or formats, key=lambda layout: _hits(layout.required, names))


def _refuse_mixture(source: Source, names: Sequence[str]) -> None:
    """Raises where input and output are both there, by names of different formats."""
    counts = {role: next((name for name in names if is_known(name, role)), None) for role in COUNTS}
    if None in counts.values():
        return
    if _hits(LAYOUTS["mooncake"].required[1:], names) == 2:
        what = "'input_length' and 'output_length' are Mooncake's names, and its times are milliseconds"
        raise BadInput(source.name, what, "write arrival_s in seconds, input_tokens, output_tokens")
    # What each holds is clear, so the way out keeps it: to our names beside our time, else to OpenAI's.
    ours = LAYOUTS["csv" if _hits(("arrival_s",), names) else "openai"].columns
    said = " and ".join(repr(name) for name in counts.values())
    renames = [
        f"{name!r} to {ours[role]!r}"
        for role, name in counts.items()
        if plain(name or "") != plain(ours[role])
    ]
    raise BadInput(source.name, f"{said} are names of different formats", f"rename {' and '.join(renames)}")


def _of_json(source: Source, text: str) -> Layout:
    line = text.split("\n", 1)[0] if "\n" in text else _first_line(source)
    try:
        keys = set(json.loads(line))
    except (ValueError, RecursionError):
        # Broken: the words that it holds must do; its reader says where it breaks.
        keys = {key for known in JSON_KEYS.values() for key in known if f'"{key}"' in line}
    best = max(JSON_KEYS, key=lambda name: len(JSON_KEYS[name] & keys))
    if best == "jsonl" and "arrival_s" not in keys and keys & set(OPENAI_TIMES):
        return LAYOUTS["openai"]  # Responses count with our own names; the time tells them apart.
    if JSON_KEYS[best] & keys:
        return LAYOUTS[best]
    wanted = ("arrival_s", "input_tokens", "output_tokens")
    near = _rename(wanted[0], sorted(keys), LAYOUTS["jsonl"]) if keys else f"write {', '.join(wanted)}"
    raise BadInput(f"{source.name}, line 1", "the object has none of a trace's fields", near)


def _first_line(source: Source) -> str:
    """The first line that is not blank; it may be longer than the head, with whole documents in it."""
    with source.opened() as (stream, _):
        while line := stream.readline(LONGEST_LINE_BYTES):
            if text := line.removeprefix(BOM).strip():
                return text.decode(errors="replace")
    return ""


def _hits(wanted: Iterable[str], names: Iterable[str]) -> int:
    have = {plain(name) for name in names}
    return sum(plain(name) in have for name in wanted)


def _rename(wanted: str, names: Sequence[str], layout: Layout) -> str:
    if near := nearest(wanted, names):
        if is_known(wanted, "arrival_s") and (unit := unit_in(near)):
            mapped = shlex.quote(f"arrival_s={near}")
            said = f"{near!r} is in {unit.name}: write its times in seconds as {wanted!r}"
            return f"{said}, or `cascadia import trace --map {mapped}`"
        return f"the nearest is {near!r}: rename it to {wanted!r}"
    held = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"the columns are {held[:200]}; a trace needs {', '.join(layout.required)}"


def _is_parquet(source: Source) -> bool:
    if source.head.startswith(PARQUET_MAGIC) and source.gzipped:
        raise BadInput(source.name, "Parquet inside gzip", f"decompress it: gunzip {Path(source.name).name}")
    return source.head.startswith(PARQUET_MAGIC)


def _names() -> str:
    return ", ".join(LAYOUTS)
