"""Inputs of a plan, read as DataFrames."""

from collections.abc import Callable
from math import inf
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import pandas as pd

from cascadia.domain.errors import BadInput
from cascadia.planner.problem import quality_file
from cascadia.planner.problem.trace_file import told_as_ours
from cascadia_traces.checks import Floats, first_fault
from cascadia_traces.formats import reading
from cascadia_traces.trace import Trace


def read_trace(
    path: str | Path,
    format: str | None = None,
    *,
    spread: bool = True,
    sort: bool = False,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """One row a request, in order of arrival: `arrival_s`, `input_tokens`, `output_tokens`, and of `prompt_id`,
    `session_id`, `prefix_tokens` and `hash_ids` those that the file has.

    Any format that `cascadia plan` reads, told from the content unless `format` names it. Rounded times of public
    formats are spread over the rounding step (seeded) unless not `spread`; `sort` accepts rows in any order; `note`
    hears, in words, what was changed. Raises `BadInput`, naming file and row.
    """
    check_format(format)
    check_seed(seed)
    with told_as_ours():
        return trace_frame(reading.read_trace(path, format, spread=spread, sort=sort, seed=seed, note=note))


def frame_trace(frame: pd.DataFrame) -> Trace:
    """The trace of a frame as `read_trace` gives it, rows left out or changed. Raises `BadInput` as for a file."""
    needed = ("arrival_s", "input_tokens", "output_tokens")
    missing = [name for name in needed if name not in frame]
    if missing:
        said = f"the frame has no column {', '.join(missing)}"
        raise BadInput("trace", said, "give the columns of cascadia.read_trace")
    if not frame.columns.is_unique:
        twice = ", ".join(map(str, frame.columns[frame.columns.duplicated()].unique()))
        raise BadInput("trace", f"the frame has two columns {twice}", "leave one out")

    def numbers(name: str) -> Floats:
        try:
            found: Floats = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        except OverflowError as error:
            raise BadInput(f"trace, column {name}", str(error), "give numbers of 64 bits") from error
        return found

    arrival_s, inputs, outputs = map(numbers, needed)
    prefixes = numbers("prefix_tokens") if "prefix_tokens" in frame else None
    fault = first_fault(arrival_s, inputs, outputs, prefixes)
    if fault is not None:
        raise BadInput(f"trace, request {fault.row + 1}", fault.what, fault.instead)
    texts = {
        name: tuple(frame[name].astype("string").fillna("")) if name in frame else None
        for name in ("prompt_id", "session_id", "hash_ids")
    }
    with told_as_ours():
        return Trace(
            arrival_s,
            inputs.astype(np.int64),
            outputs.astype(np.int64),
            prefix_tokens=None if prefixes is None else prefixes.astype(np.int64),
            **texts,
        )


def trace_frame(trace: Trace) -> pd.DataFrame:
    """The columns that `trace` has."""
    columns = {
        "arrival_s": trace.arrival_s,
        "input_tokens": trace.input_tokens,
        "output_tokens": trace.output_tokens,
        "prompt_id": _texts(trace.prompt_id),
        "session_id": _texts(trace.session_id),
        "prefix_tokens": trace.prefix_tokens,
        "hash_ids": _texts(trace.hash_ids),
    }
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})


def read_quality(path: str | Path, *, scale: float | None = None) -> pd.DataFrame:
    """One row a (prompt, stage), stages and prompts in the file's order: `prompt_id`, `stage`, `score`, `quality`,
    `input_tokens`, `output_tokens`, and `foreseen` where there is one. Scores and qualities are on 0-100.

    `scale` is what scores go up to, where the file does not say. Raises `BadInput`, naming file and row, for anything
    that is not a complete table.
    """
    if scale is not None and not is_above_0(scale):
        raise BadInput("scale", f"{scale!r} is no number above 0", "write what scores go up to, e.g. 10")
    table = quality_file.read_quality(path, None, scale=scale)
    count = len(table)
    columns = {
        "prompt_id": _texts(table.prompt_ids * len(table.stages)),
        "stage": pd.Categorical.from_codes(
            np.repeat(np.arange(len(table.stages)), count).tolist(), pd.Index(table.stages), ordered=True
        ),
        "score": table.score.ravel(),
        "quality": table.quality.ravel(),
        "input_tokens": table.input_tokens.ravel(),
        "output_tokens": table.output_tokens.ravel(),
        "foreseen": None if table.foreseen is None else table.foreseen.ravel(),
    }
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})


def check_format(format: object) -> None:
    """Raises `BadInput` for what cannot be a format's name; of names, those who read the file tell."""
    if format is not None and not isinstance(format, str):
        raise BadInput("format", f"{format!r} is no name of a format", "leave it out, or write e.g. 'azure'")


def check_seed(seed: object) -> None:
    """Raises `BadInput` for what no generator is seeded with."""
    if not is_whole(seed):
        raise BadInput("seed", f"{seed!r} is no whole number from 0 on", "write e.g. 0")


def is_whole(value: object, least: int = 0) -> bool:
    """Tells whether `value` is a whole number from `least` on."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def is_above_0(value: object) -> bool:
    """Tells whether `value` is a number above 0 that a float can hold; infinity is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0 < float(value) < inf
    except OverflowError:
        return False


def _texts(texts: tuple[str, ...] | None) -> "pd.Series[str] | None":
    return None if texts is None else pd.Series(texts, dtype="string")
