"""Checks of a trace, which name the first row that is not valid."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers = NDArray[np.float64] | NDArray[np.int64]

LATEST_S = 1e10
"""Seconds: 317 years. An epoch in seconds stays below, one in milliseconds above."""

LONGEST_TOKENS = 1_000_000_000
"""No context is that long; below it, sums over 10^9 requests stay within 64 bits."""


_DAYS = (36526.0, 73051.0)
"""Days since 1900 of 2000 to 2099, as spreadsheets count them."""
_TELLING = 20
"""Times that must tell: by chance one that is no day number does so one time in eight."""
_MOST_RPS = 1000.0


class Fault(NamedTuple):
    """The first bad row (counted from 0 within the arrays), what is wrong there and what to write instead."""

    row: int
    what: str
    instead: str


def first_fault(
    arrival_s: Floats,
    input_tokens: Numbers,
    output_tokens: Numbers,
    prefix_tokens: Numbers | None,
    after_s: float = 0.0,
    earliest_s: float = 0.0,
) -> Fault | None:
    """The earliest fault in columns of equal length n, or None.

    `after_s` is the arrival before the first; `earliest_s` is -inf where times count from anywhere.
    """
    faults = [
        arrival_fault(arrival_s, after_s, earliest_s),
        tokens_fault("input_tokens", input_tokens),
        tokens_fault("output_tokens", output_tokens),
        None if prefix_tokens is None else prefix_fault(prefix_tokens, input_tokens),
    ]
    return min((fault for fault in faults if fault is not None), default=None, key=lambda fault: fault.row)


def arrival_fault(arrival_s: Floats, after_s: float, earliest_s: float) -> Fault | None:
    """Arrivals are finite, from `earliest_s` to LATEST_S, and do not decrease."""
    earlier_s = np.concatenate(([after_s], arrival_s[:-1]))
    # Written so that NaN counts as bad.
    good = (arrival_s >= max(earliest_s, -LATEST_S)) & (arrival_s <= LATEST_S) & (arrival_s >= earlier_s)
    row = first_false(good)
    if row is None:
        return None
    value = float(arrival_s[row])
    if np.isnan(value):
        return Fault(row, "the arrival time is NaN or missing", "write seconds since the start of the trace")
    if value < max(earliest_s, -LATEST_S):
        return Fault(
            row,
            f"the arrival time {value:g} s is {'negative' if earliest_s == 0 else 'too early'}",
            "write seconds from 0 on",
        )
    if value > LATEST_S:
        return Fault(row, f"the arrival time {value:g} s is beyond {LATEST_S:g} s", "write seconds, not ms")
    return Fault(
        row,
        f"the arrival time {value:.9g} s is before the previous one, {float(earlier_s[row]):.9g} s",
        "sort the rows by arrival time (cascadia trace convert --sort does)",
    )


def day_number(times: Floats) -> float | None:
    """The first of `times` (n) where they are days since 1900, as spreadsheets keep dates, for sure: all are of this
    century, and as seconds they would be of thousands of requests a second; or each is a whole number of seconds,
    though no number of hundredths of a day.
    """
    if not bool(((times >= _DAYS[0]) & (times < _DAYS[1])).all()):
        return None
    seconds, hundredths = times * 86400, times * 100
    distinct = np.unique(times)
    crowded = len(distinct) >= _TELLING and len(times) > _MOST_RPS * float(np.ptp(distinct))
    telling = np.unique(times[np.abs(hundredths - np.round(hundredths)) > 1e-6])
    whole_seconds = bool((np.abs(seconds - np.round(seconds)) < 0.06).all())
    return float(times[0]) if crowded or (whole_seconds and len(telling) >= _TELLING) else None


def tokens_fault(name: str, tokens: Numbers) -> Fault | None:
    """Lengths are whole numbers from 1 to LONGEST_TOKENS."""
    row = first_false((tokens >= 1) & (tokens <= LONGEST_TOKENS) & whole(tokens))
    return (
        None
        if row is None
        else Fault(row, f"{name} {_told(tokens[row])}", f"write a whole number from 1 to {LONGEST_TOKENS:,}")
    )


def prefix_fault(prefix_tokens: Numbers, input_tokens: Numbers) -> Fault | None:
    """A cached prefix leaves at least one token of the input to compute."""
    row = first_false((prefix_tokens >= 0) & (prefix_tokens < input_tokens) & whole(prefix_tokens))
    if row is None:
        return None
    return Fault(
        row, f"prefix_tokens {_told(prefix_tokens[row])}", "write a whole number from 0 to input_tokens - 1"
    )


def whole(values: Numbers) -> NDArray[np.bool_]:
    if values.dtype.kind == "i":
        return np.ones(len(values), dtype=np.bool_)
    return np.asarray(values == np.floor(values))


def first_false(good: NDArray[np.bool_]) -> int | None:
    if good.all():
        return None
    return int(np.argmin(good))


def _told(value: np.float64 | np.int64) -> str:
    return "is NaN or missing" if np.isnan(value) else f"is {float(value):.12g}"
