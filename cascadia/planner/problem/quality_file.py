"""Quality tables on disk: one row per (prompt, stage), as Parquet, CSV or JSON lines (DESIGN section 3)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import Floats, QualityTable, ScoredBy
from cascadia.files.atomic import atomic_write
from cascadia.files.written import written_number
from cascadia.planner.problem.quality_format import kind_of, read_arrow
from cascadia.planner.problem.quality_judge import (
    metadata_of,
    refuse_unlikely,
    said_by,
    scale_of_quality,
    settled_scale,
)
from cascadia_traces.arrow import numbers as arrow_numbers
from cascadia_traces.arrow import rows_of

Ints = np.ndarray[Any, np.dtype[np.int64]]
REQUIRED = ("prompt_id", "stage", "score", "input_tokens", "output_tokens")
OPTIONAL = ("quality", "foreseen")
NUMBERS = {
    "score": (0.0, 100.0),
    "quality": (0.0, 100.0),
    "input_tokens": (1, 1e9),
    "output_tokens": (1, 1e9),
    "foreseen": (0.0, 100.0),
}
"""Columns with numbers, and the range that each may take."""

SCORES = ("score", "quality", "foreseen")


def read_quality(
    path: str | Path,
    stages: tuple[str, ...] | None,
    *,
    scale: float | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> QualityTable:
    """The table of `stages` (None: of all that it has, in order of first appearance), prompts in order of first
    appearance, its scores on 0-100.

    `scale` is what scores go up to, where the file does not say. `note` hears, in words, what was left aside: a stage
    that is not among `stages` but was asked every prompt. Raises `BadInput`, naming file and row, for anything that
    is not a complete table: a column, stage or answer that is missing, a pair given twice, a stage that nobody
    knows, a number out of range, scores of an unknown scale.
    """
    path = Path(path)
    read = read_arrow(path, REQUIRED)
    said = said_by(read.schema.metadata, str(path))
    highest = settled_scale(path, said, scale)
    table = _columns(path, read)
    stage_names, stage_of_row = _coded(table["stage"])
    stages = tuple(stage_names) if stages is None else stages
    position = {name: stages.index(name) if name in stages else -1 for name in stage_names}
    stage = np.array([position[name] for name in stage_names], dtype=np.int64)[stage_of_row]
    rows = np.flatnonzero(stage >= 0)
    for name in stages:
        if name not in position:
            raise BadInput(str(path), f"no row for stage {name!r}", _instead(stages, stage_names, table))

    _left_aside(path, table["prompt_id"], stage_names, stage_of_row, stages, note)
    prompt_names, prompt_of_row = _coded(rows_of(table["prompt_id"], rows))
    stage = stage[rows]
    cell = stage * len(prompt_names) + prompt_of_row
    _check_complete(path, cell, rows, stages, prompt_names)

    order = np.empty_like(cell)
    order[cell] = np.arange(len(cell))
    shape = (len(stages), len(prompt_names))
    number: dict[str, Floats] = {}
    for name in NUMBERS:
        if name in table:
            values = _numbers(path, name, rows_of(table[name], rows), rows, highest)
            number[name] = values[order].reshape(shape)
    return QualityTable(
        prompt_ids=tuple(prompt_names),
        stages=stages,
        score=number["score"],
        quality=number.get("quality", number["score"]),
        input_tokens=number["input_tokens"],
        output_tokens=number["output_tokens"],
        foreseen=number.get("foreseen"),
        scored_by=said if scale is None else replace(said or ScoredBy(), scale=scale),
    )


def write_quality(table: QualityTable, path: str | Path) -> None:
    """Write `table` in the format that the file's name ends with; all of it or nothing. Parquet also says whose scores
    these are, and that they are of 100."""
    path = Path(path)
    kind = kind_of(path)
    count = len(table)
    columns: dict[str, list[Any]] = {
        "prompt_id": list(table.prompt_ids) * len(table.stages),
        "stage": [name for name in table.stages for _ in range(count)],
        "score": table.score.ravel().tolist(),
        "quality": table.quality.ravel().tolist(),
        "input_tokens": table.input_tokens.ravel().tolist(),
        "output_tokens": table.output_tokens.ravel().tolist(),
    }
    if table.foreseen is not None:
        columns["foreseen"] = table.foreseen.ravel().tolist()
    try:
        with atomic_write(path) as part:
            _write(kind, columns, part, metadata_of(table.scored_by))
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be written ({error.strerror})", "name a writable folder"
        ) from error


def _write(kind: str, columns: dict[str, list[Any]], path: Path, about: dict[bytes, bytes]) -> None:
    if kind == "jsonl":
        names = list(columns)
        lines = (
            json.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)
        )
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table(columns)
    if kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table.replace_schema_metadata(about), path)


def _instead(stages: Sequence[str], found: Sequence[str], table: dict[str, Any]) -> str:
    """Advice where a stage has no row; `found` are the values of the column `stage`."""
    prompts, _ = _coded(table["prompt_id"])
    if set(stages) <= set(prompts):
        return "exchange the columns prompt_id and stage"
    more = ", ..." if len(found) > 8 else ""
    # In quotes: blanks around a name are what a reader overlooks.
    return f"add its answers, or rename one of: {', '.join(map(repr, sorted(found)[:8]))}{more}"


def _columns(path: Path, table: Any) -> dict[str, Any]:
    """The columns by name, each in one piece; identifiers as text, without gaps."""
    import pyarrow as pa

    names: list[str] = table.column_names
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        instead = f"write columns {', '.join(REQUIRED)}, or see `cascadia import quality`"
        absent = " and none ".join(map(repr, missing))
        raise BadInput(str(path), f"no column {absent}; it has {', '.join(names[:20])}", instead)
    if table.num_rows == 0:
        raise BadInput(str(path), "the table has no rows", "write one row per prompt and stage")
    columns: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        if names.count(name) > 1:
            raise BadInput(str(path), f"column {name!r} is there twice", "keep one of them")
        if name in names:
            columns[name] = table.column(name).combine_chunks()
    for name in ("prompt_id", "stage"):
        try:
            columns[name] = columns[name].cast(pa.string())
        except pa.ArrowException as error:
            raise BadInput(str(path), f"column {name!r} is not text", "write names or numbers") from error
        if columns[name].null_count:
            row = columns[name].is_null().to_numpy(zero_copy_only=False).argmax() + 1
            raise BadInput(f"{path} row {row}", f"{name} is missing", "give every row one")
    return columns


def _coded(column: Any) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """Distinct values in order of first appearance, and each row's position among them."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), arrow_numbers(encoded.indices).astype(np.int64)


def _left_aside(
    path: Path,
    prompts: Any,
    names: list[str],
    stage_of_row: Ints,
    stages: tuple[str, ...],
    note: Callable[[str], None],
) -> None:
    """Tells of stages that are not asked for. One that was not asked every prompt is a name gone wrong: its rows would
    take their prompts with them."""
    questions = len(prompts.unique())
    for at, name in enumerate(names):
        if name in stages:
            continue
        own = np.flatnonzero(stage_of_row == at)
        if len(rows_of(prompts, own).unique()) < questions:
            near = get_close_matches(name, stages, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"the stages are {', '.join(stages)}"
            some = f" (and {len(own) - 1:,} more)" if len(own) > 1 else ""
            raise BadInput(f"{path} row {own[0] + 1}{some}", f"stage {name!r} is not in the spec", meant)
        note(f"{path.name}: stage {name!r} is not in the spec, its {len(own):,} rows are left aside")


def _numbers(path: Path, name: str, column: Any, rows: Ints, scale: float | None) -> Floats:
    """Scores come out on 0-100."""
    import pyarrow as pa

    low, high = NUMBERS[name]
    scored = name in SCORES
    try:
        values = arrow_numbers(column.cast(pa.float64())).astype(np.float64)
    except pa.ArrowException:
        values = np.array([_number(value) for value in column.to_pylist()])
    if name == "quality" and scale != 100.0:
        known = values[np.isfinite(values)]
        high = scale_of_quality(str(path), known, scale) if len(known) else high
    elif scored and scale is not None:
        high = scale
    bad = ~((values >= low) & (values <= high))
    if bad.any():
        first = int(bad.argmax())
        value = column[first].as_py()
        said = (
            f"{name} is missing or not a number" if values[first] != values[first] else f"{name} is {value!r}"
        )
        raise BadInput(f"{path} row {rows[first] + 1}", said, f"write a number from {low:g} to {high:,.12g}")
    if scored and scale is None and high == 100.0:
        refuse_unlikely(path, name, values)
    return values * (100.0 / high) if scored and high != 100.0 else values


def _number(value: object) -> float:
    if isinstance(value, str):
        return written_number(value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _check_complete(
    path: Path,
    cell: np.ndarray[Any, np.dtype[np.int64]],
    rows: np.ndarray[Any, np.dtype[np.int64]],
    stages: tuple[str, ...],
    prompts: list[str],
) -> None:
    """Every (stage, prompt) has exactly one row."""
    count = np.bincount(cell, minlength=len(stages) * len(prompts))
    if (count > 1).any():
        twice = int((count > 1).argmax())
        row = int(rows[np.flatnonzero(cell == twice)[1]]) + 1
        stage, prompt = stages[twice // len(prompts)], prompts[twice % len(prompts)]
        raise BadInput(f"{path} row {row}", f"prompt {prompt!r} has a second row for {stage!r}", "keep one")
    if (count == 0).any():
        absent = int((count == 0).argmax())
        stage, prompt = stages[absent // len(prompts)], prompts[absent % len(prompts)]
        lacking = int((count == 0).sum())
        more = f" ({lacking} such gaps)" if lacking > 1 else ""
        raise BadInput(
            str(path),
            f"prompt {prompt!r} has no row for stage {stage!r}{more}",
            "add the row or drop the prompt",
        )
