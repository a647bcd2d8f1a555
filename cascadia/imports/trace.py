"""A workload trace from records: when requests came, and how long they were."""

from collections.abc import Callable

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.imports.fields import moment_s, number
from cascadia.imports.lengths import lengths, needed, without_failed
from cascadia.imports.records import DATES_S, Record, Records
from cascadia.imports.tokens import Counter
from cascadia_traces.checks import LATEST_S, Floats, Ints
from cascadia_traces.formats.epoch import days_fault
from cascadia_traces.formats.spread import spread_ticks
from cascadia_traces.trace import Trace, join


def trace_of(
    found: Records,
    counter: Counter,
    *,
    rate_rps: float | None = None,
    answer_tokens: int | None = None,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> Trace:
    """The requests in order of arrival, from 0 on. Without times in the file, `rate_rps` draws them (Poisson, seeded);
    with times it is refused. Times in whole seconds are spread over the second. Raises `BadInput` with all columns
    that are missing."""
    if rate_rps is not None and found.have("arrival_s"):
        instead = "leave it out, and stretch the trace with `cascadia trace scale`"
        raise BadInput("--rate", "is for files without times, and this has some", instead)
    arrivals = [] if rate_rps is not None else [("arrival_s",)]
    found.refuse_missing([*arrivals, *needed(answer_tokens)], _OTHERWISE)
    without_failed(found, note)
    inputs = lengths(found.records, "input_tokens", counter, note)
    outputs = lengths(found.records, "output_tokens", counter, note, answer_tokens)
    kept = np.flatnonzero((inputs > 0) & (outputs > 0))
    if len(kept) == 0:
        raise BadInput(
            found.source, "every request lacks input or output", "name a log of requests that went well"
        )
    if len(kept) < len(inputs):
        note(f"left out {len(inputs) - len(kept):,} of {len(inputs):,} requests: no tokens counted in or out")
    records = [found.records[at] for at in kept]
    arrival_s = _arrivals(found, records, rate_rps, seed, note)
    order = np.argsort(arrival_s, kind="stable")
    records = [records[at] for at in order]
    trace = Trace(
        arrival_s[order] - arrival_s.min(),
        inputs[kept][order],
        outputs[kept][order],
        prompt_id=_names(records, "prompt_id"),
        session_id=_names(records, "session_id"),
        prefix_tokens=_prefixes(records, inputs[kept][order]),
    )
    # What a program wrote in whole seconds is laid at random over them; other times stay.
    return join(list(spread_ticks(iter([trace]), 1.0, seed, note))).starting_at_zero()


_FROM_A_START_S = 1e8
"""Seconds below which no log has dates."""
_OTHERWISE = {
    "arrival_s": "--rate RPS to draw arrivals",
    "output_tokens": "--answer-tokens N for answers of one length",
}


def _arrivals(
    found: Records, records: list[Record], rate_rps: float | None, seed: int, note: Callable[[str], None]
) -> Floats:
    """Seconds (n) from anywhere: the file's, or drawn where it has none."""
    if not found.have("arrival_s"):
        rate = rate_rps or 1.0
        note(f"no times in the file: arrivals drawn at {rate:g} requests/s (Poisson, seed {seed})")
        return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, len(records)))
    times = np.array([moment_s(record.get("arrival_s")) for record in records])
    bad = np.flatnonzero(np.isnan(times))
    if len(bad):
        row = records[bad[0]]
        said = f"its time is {row.get('arrival_s')!r}"
        raise BadInput(row.where, said, "write seconds, or a date with its time, like 2026-11-23 18:15:46")
    if (fault := days_fault(times)) is not None:
        raise BadInput(found.source, fault.what, fault.instead)
    if times.min() < _FROM_A_START_S and times.max() > DATES_S:
        row = records[int(times.argmin())]
        raise BadInput(
            row.where,
            f"its time {row.get('arrival_s')} counts from a start, others are dates",
            "import it alone",
        )
    if times.max() - times.min() > LATEST_S:
        row = records[int(times.argmax())]
        said = f"its time {row.get('arrival_s')!r} is {LATEST_S:g} s or more after the earliest"
        raise BadInput(row.where, said, "mend it, or leave the row out")
    return times


def _names(records: list[Record], column: str) -> tuple[str, ...] | None:
    if not any(column in record for record in records):
        return None
    return tuple("" if record.get(column) is None else str(record.get(column)) for record in records)


def _prefixes(records: list[Record], inputs: Ints) -> Ints | None:
    """An engine computes at least the last token anew."""
    if not any("prefix_tokens" in record for record in records):
        return None
    given = np.nan_to_num(np.array([number(record.get("prefix_tokens")) for record in records]))
    return np.asarray(np.clip(given, 0, inputs - 1), dtype=np.int64)
