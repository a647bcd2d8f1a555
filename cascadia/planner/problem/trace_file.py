"""A trace for a command that takes it by flags: read and rescaled, its errors told as bad input."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.planner.problem.join import at_rate
from cascadia_traces import errors as trace_errors
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.trace import Trace


def read_trace_for(
    path: Path, format_: str | None, rate_rps: float | None, seed: int, plan: Plan | None = None
) -> tuple[Trace, tuple[str, ...]]:
    """The trace, and what its reader had to change. Of the trace that `plan` was made for it takes as many requests as
    the plan did, and where no rate is given, at the plan's rate.
    """
    notes: list[str] = []
    rules = None if plan is None else plan.workload
    with told_as_ours():
        trace = read_trace(path, format_, seed=seed, note=notes.append)
        if plan is not None and rules is not None and rules.trace_digest == file_digest(path):
            if rules.max_requests is not None:
                trace = trace.rows(0, min(rules.max_requests, len(trace)))
            if rate_rps is None:
                # As asked: stretched to what came of that, times would differ in their last digits.
                rate_rps = plan.predicted.rate_rps if plan.objective.goal == "rate" else rules.rate_rps
        elif plan is not None and rules is None and rate_rps is None:
            notes.extend(_of_another_rate(plan, trace))
        trace = trace if rate_rps is None else at_rate(trace, rate_rps, "--rate")
    return trace, tuple(notes)


def _of_another_rate(plan: Plan, trace: Trace) -> Iterator[str]:
    """A note on a plan older than version 3, which does not say what it was planned on."""
    planned_rps = plan.predicted.rate_rps
    if abs(trace.rate_rps - planned_rps) > 0.01 * planned_rps:
        yield (
            f"the plan is of an older version and does not name its trace, so this one's own rate stands;"
            f" it was planned for {planned_rps:g} requests/s: --rate {planned_rps:g}"
        )


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Raises `cascadia.BadInput` for what the package of traces refuses."""
    try:
        yield
    except trace_errors.BadInput as error:
        raise BadInput(error.where, error.what, error.instead) from None


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
