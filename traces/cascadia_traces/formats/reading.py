"""Any known format to a Trace, whole or in chunks of bounded memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from cascadia_traces.checks import Numbers, first_fault
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.csv_rows import read_csv
from cascadia_traces.formats.detect import layout_of
from cascadia_traces.formats.epoch import days_fault
from cascadia_traces.formats.jsonl_rows import read_jsonl
from cascadia_traces.formats.layout import LAYOUTS, Layout
from cascadia_traces.formats.mooncake_rows import read_mooncake
from cascadia_traces.formats.openai_rows import read_openai
from cascadia_traces.formats.parquet_rows import read_parquet
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source, open_source
from cascadia_traces.formats.spread import spread_ticks
from cascadia_traces.trace import Trace, join

FORMATS = tuple(LAYOUTS)

_READERS: dict[str, Callable[[Source, Layout, Callable[[int], None]], Iterator[Rows]]] = {
    "mooncake": read_mooncake,
    "qwen": read_mooncake,
    "openai": read_openai,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}


def _reader(layout: Layout) -> Callable[[Source, Layout, Callable[[int], None]], Iterator[Rows]]:
    """Reader by kind where it is a CSV: OpenAI's names are read as columns too."""
    return read_csv if layout.kind == "csv" else _READERS[layout.name]


def read_trace(
    path: str | Path,
    format: str | None = None,
    *,
    spread: bool = True,
    sort: bool = False,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Trace:
    """The trace in `path`, whose format (one of FORMATS) is told from its content unless given.

    Public formats are shifted to start at 0. `spread` lays requests whose times are rounded over the rounding
    step, seeded (see `spread.py`); `sort` accepts rows in any order. `note` hears, in words, what was
    changed; `on_progress` the bytes of the file read so far. Raises BadInput.
    """
    source = open_source(path)
    layout = layout_of(source, format)
    rows = _reader(layout)(source, layout, on_progress)
    chunks = _checked(source, layout, _sorted(rows) if sort else rows, note)
    return join(list(_finished(layout, chunks, spread, seed, note)))


def iter_trace(
    path: str | Path,
    format: str | None = None,
    rows: int = 1_000_000,
    *,
    spread: bool = True,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Trace]:
    """The same trace as `read_trace` gives, in consecutive parts of `rows` requests (the last may be less).

    Memory is bounded by `rows`, except for Mooncake's set of known prefix blocks.
    """
    source = open_source(path)
    layout = layout_of(source, format)
    chunks = _checked(source, layout, _reader(layout)(source, layout, on_progress), note)
    return rechunked(_finished(layout, chunks, spread, seed, note), rows)


def rechunked(chunks: Iterator[Trace], rows: int) -> Iterator[Trace]:
    """The same requests in parts of exactly `rows` (the last may be shorter)."""
    if rows < 1:
        raise ValueError("a chunk holds at least one row")
    held: list[Trace] = []
    count = 0
    for chunk in chunks:
        held.append(chunk)
        count += len(chunk)
        if count < rows:
            continue
        known = join(held)
        whole = count - count % rows
        for first in range(0, whole, rows):
            yield known.rows(first, first + rows)
        held = [known.rows(whole, count)] if whole < count else []
        count -= whole
    if held:
        yield join(held)


def _checked(
    source: Source, layout: Layout, parts: Iterator[Rows], note: Callable[[str], None]
) -> Iterator[Trace]:
    """Valid requests only; raises for the first that is not; counts failed requests of public formats."""
    earliest_s = -np.inf if layout.public else 0.0
    after_s, failed, kept, origin_s = earliest_s, 0, 0, 0.0
    for part in parts:
        rows = part.where((part.input_tokens != 0) & (part.output_tokens != 0)) if layout.public else part
        failed += len(part) - len(rows)
        if len(rows) == 0:
            continue
        fault = first_fault(
            rows.arrival_s, rows.input_tokens, rows.output_tokens, rows.prefix_tokens, after_s, earliest_s
        )
        if fault is not None:
            unit = "line" if layout.kind == "jsonl" else "row"
            raise BadInput(f"{source.name}, {unit} {rows.number[fault.row]}", fault.what, fault.instead)
        if kept == 0 and (fault := days_fault(rows.arrival_s)) is not None:
            raise BadInput(source.name, fault.what, fault.instead)
        if kept == 0 and layout.public:
            origin_s = float(rows.arrival_s[0])
        after_s = float(rows.arrival_s[-1])
        kept += len(rows)
        yield _trace(rows, origin_s)
    if kept == 0:
        what = f"all {failed} requests failed" if failed else "it holds no requests"
        raise BadInput(source.name, what, "give at least one request with input and output")
    if failed:
        note(f"left out {failed} of {kept + failed} requests: they failed, or have no count of tokens")


def _finished(
    layout: Layout, chunks: Iterator[Trace], spread: bool, seed: int, note: Callable[[str], None]
) -> Iterator[Trace]:
    if not spread or layout.tick_s is None:
        yield from chunks
        return
    origin_s = None
    for chunk in spread_ticks(chunks, layout.tick_s, seed, note):
        origin_s = chunk.arrival_s[0] if origin_s is None else origin_s
        yield replace(chunk, arrival_s=chunk.arrival_s - origin_s)


def _sorted(parts: Iterator[Rows]) -> Iterator[Rows]:
    """All rows as one part in order of arrival; rows of equal time keep theirs."""
    known = list(parts)
    if known:
        whole = Rows.joined(known)
        yield whole.at(np.argsort(whole.arrival_s, kind="stable"))


def _trace(rows: Rows, origin_s: float) -> Trace:
    return Trace(
        rows.arrival_s - origin_s,
        _whole(rows.input_tokens),
        _whole(rows.output_tokens),
        prompt_id=None if rows.prompt_id is None else tuple(rows.prompt_id),
        session_id=None if rows.session_id is None else tuple(rows.session_id),
        prefix_tokens=None if rows.prefix_tokens is None else _whole(rows.prefix_tokens),
        hash_ids=None if rows.hash_ids is None else tuple(rows.hash_ids),
    )


def _whole(tokens: Numbers) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    # A copy in any case: what pyarrow gives is read-only.
    return np.array(tokens, dtype=np.int64)


def detect_format(path: str | Path) -> str:
    """Name of the format, one of FORMATS, that the file's content shows."""
    return layout_of(open_source(path)).name
