"""A trace for a command that takes it by flags: read and rescaled, its errors told as bad input."""

from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.join import at_rate
from cascadia_traces import errors as trace_errors
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.trace import Trace


def read_trace_for(
    path: Path, format_: str | None, rate_rps: float | None, seed: int
) -> tuple[Trace, tuple[str, ...]]:
    """The trace, and what its reader had to change."""
    notes: list[str] = []
    try:
        trace = read_trace(path, format_, seed=seed, note=notes.append)
        trace = trace if rate_rps is None else at_rate(trace, rate_rps, "--rate")
    except trace_errors.BadInput as error:
        raise BadInput(error.where, error.what, error.instead) from None
    return trace, tuple(notes)
