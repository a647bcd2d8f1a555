"""Rows of other programs' files as records: our columns, by the format's names or by those that the user maps.

What is missing is told all at once: every column that the target needs and no row has, with the columns that the file
has and how to name them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.imports.fields import at, number
from cascadia.imports.layouts import COLUMNS, Layout, layout_of
from cascadia.imports.rows import Rows, read_rows
from cascadia.imports.wide import paths_by_model
from cascadia_traces.formats.names import Unit, unit_in

DATES_S = 1e9
"""Seconds above which all times are dates (2001)."""
HEAD_ROWS = 50
"""What a format is told by: the first may lack what others have."""


@dataclass(frozen=True, slots=True)
class Record:
    """Our columns of one row, as they are found; `where` names it."""

    where: str
    values: Mapping[str, Any]

    def __contains__(self, column: str) -> bool:
        return self.values.get(column) is not None

    def get(self, column: str) -> Any:
        return self.values.get(column)


@dataclass(frozen=True, slots=True)
class Records:
    """Requests of one or more files. `failed` rows were marked so by their program and are left out; `columns` are the
    files' own names."""

    source: str
    format: str
    records: tuple[Record, ...]
    failed: int
    columns: tuple[str, ...]

    def have(self, column: str) -> bool:
        return any(column in record for record in self.records)

    def refuse_missing(self, needed: Sequence[tuple[str, ...]], otherwise: Mapping[str, str]) -> None:
        """Raises `BadInput` with every one of `needed` of which no row has any; each is a column or its stand-ins.
        `otherwise` says, by column, what else would do."""
        missing = [names for names in needed if not any(self.have(name) for name in names)]
        if not missing:
            return
        said = ", ".join(" or ".join(names) for names in missing)
        maps = " ".join(f"--map {names[0]}=COLUMN" for names in missing)
        also = "".join(f", or {otherwise[names[0]]}" for names in missing if names[0] in otherwise)
        raise BadInput(
            self.source,
            f"read as {self.format}, it has nothing for {said}",
            f"write {maps}{also}; its columns are {', '.join(self.columns) or 'none'}",
        )


def read_records(
    paths: Sequence[Path],
    maps: Mapping[str, str],
    format_: str | None = None,
    split: str | None = None,
    models: Sequence[str] = (),
) -> Records:
    """The requests of all `paths`, which are of one format. `maps` says where our columns stand (a name, or a path with
    dots). `models` may each have a column of scores instead of rows. Raises `BadInput`."""
    known: list[Record] = []
    failed = 0
    layout: Layout | None = None
    columns: tuple[str, ...] = ()
    for path in paths:
        read = read_rows(path, split)
        if not read.rows:
            raise BadInput(str(path), "holds no requests", "name a file with requests in it")
        known_as = layout
        layout = layout_of(read.rows[:HEAD_ROWS], format_ or read.kind)
        if known_as is not None and known_as.name != layout.name:
            others = f"is read as {layout.name}, and {paths[0]} as {known_as.name}"
            raise BadInput(str(path), others, "import files of each format alone, or say --format")
        columns = _columns(read)
        paths_of = _mapped(path, layout, maps, read, columns)
        by_model = paths_by_model(read.rows, models, paths_of, columns) if layout.name == "table" else {}
        unit = unit_in(maps["arrival_s"]) if "arrival_s" in maps else layout.unit
        for place, row in enumerate(read.rows, 1):
            if not all(at(row, key) in values for key, values in layout.kept.items()):
                continue
            if at(row, "error") is not None or any(at(row, key) in bad for key, bad in layout.failed.items()):
                failed += 1
                continue
            where = f"{path} {read.unit} {place}"
            for model, own in by_model.items():
                answer = {ours: _first(row, theirs) for ours, theirs in own.items()}
                if answer["score"] is not None:
                    known.append(Record(where, {**answer, "model": model}))
            if by_model:
                continue
            values = {ours: _first(row, theirs) for ours, theirs in paths_of.items()}
            # A number as large counts since 1970, and tells its unit by its size.
            if unit is not None and ("arrival_s" in maps or not number(values["arrival_s"]) >= DATES_S):
                values["arrival_s"] = _in_seconds(values["arrival_s"], unit)
            known.append(Record(where, values))
    name = ", ".join(map(str, paths))
    if layout is None or not known:
        raise BadInput(name, f"holds no requests that went well ({failed} failed)", "name a file that does")
    return Records(name, layout.name, tuple(known), failed, columns)


def maps_of(given: Sequence[str]) -> dict[str, str]:
    """`ours=theirs` texts by our column. Raises `BadInput` with every one that is none."""
    parted = [one.partition("=") for one in given]
    bad = [
        one
        for one, (ours, sign, theirs) in zip(given, parted, strict=True)
        if ours not in COLUMNS or not theirs
    ]
    if bad:
        raise BadInput("--map", f"{', '.join(bad)}: not OURS=THEIRS", f"ours is one of {', '.join(COLUMNS)}")
    names = [ours for ours, _, _ in parted]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise BadInput("--map", f"{', '.join(twice)}: there twice", "take it from one column")
    return {ours: theirs for ours, _, theirs in parted}


def _mapped(
    path: Path, layout: Layout, maps: Mapping[str, str], read: Rows, columns: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    unknown = [theirs for theirs in maps.values() if all(at(row, theirs) is None for row in read.rows)]
    if unknown:
        near = [
            f"did you mean {match[0]!r}?"
            for name in unknown
            if (match := get_close_matches(name, columns, 1))
        ]
        said = f"no row has {', '.join(map(repr, unknown))}"
        raise BadInput(str(path), said, " ".join(near) or f"its columns are {', '.join(columns)}")
    return {**layout.paths, **{ours: (theirs,) for ours, theirs in maps.items()}}


def _in_seconds(time: Any, unit: Unit) -> Any:
    """`time` of a column whose name tells its unit; a date as it is."""
    given = number(time)
    return time if math.isnan(given) else given * unit.seconds


def _first(row: Mapping[str, Any], paths: Sequence[str]) -> Any:
    return next((found for path in paths if (found := _value(row, path)) is not None), None)


def _value(row: Mapping[str, Any], path: str) -> Any:
    """The value at `path`; `usage_details:input` is the sum of the counts whose names begin with `input`."""
    whole, _, beginning = path.partition(":")
    if not beginning or path in row:
        return at(row, path)
    details = at(row, whole)
    if not isinstance(details, Mapping):
        return None
    counts = [value for name, value in details.items() if name.startswith(beginning) and value is not None]
    odd = [value for value in counts if math.isnan(number(value))]
    return odd[0] if odd else sum(map(number, counts)) if counts else None


def _columns(read: Rows) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in read.rows[:HEAD_ROWS] for name in row))
