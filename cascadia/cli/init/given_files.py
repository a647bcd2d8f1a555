"""Checks of the files that a new spec names, before it is written."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia_traces import errors as trace_errors


def check_files(folder: Path, trace: str | None, table: str | None, stages: Sequence[str]) -> Iterator[str]:
    """Notes on what is not there yet. Raises `BadInput` for what is there and cannot be planned with."""
    from cascadia.planner.problem.quality_file import read_quality
    from cascadia_traces.formats.reading import read_trace

    if trace is not None and (folder / trace).exists():
        try:
            read_trace(folder / trace, None, seed=0, note=lambda _: None)
        except trace_errors.BadInput as error:
            raise BadInput(error.where, error.what, f"{error.instead}, or see `cascadia import`") from None
    elif trace is not None:
        yield f"{trace} is not there yet: `cascadia trace generate` makes one up"
    if table is not None and (folder / table).exists():
        read_quality(folder / table, tuple(stages), scale=None, note=lambda _: None)
    elif table is not None:
        yield f"{table} is not there yet: `cascadia profile quality` measures one"
