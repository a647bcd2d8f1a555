"""Seconds since 1970 of dates, and of numbers whose unit nobody tells: s, ms, us or ns, by their size."""

from datetime import UTC, date, datetime, timedelta

import numpy as np

from cascadia_traces.checks import Fault, Floats, day_number

EPOCH_UNITS = ((1.0, 0.0, 5e9), (1e3, 1e12, 5e12), (1e6, 1e15, 5e15), (1e9, 1e18, 5e18))
"""Units in a second, and between what a time in them lies (2001 to 2128; of seconds that count from a start, from 0).
What is elsewhere is no time, such as 20261126100001."""


def epoch_s(times: Floats) -> Floats:
    """Seconds since 1970 of `times` (n), each by its own size; NaN for what is none."""
    size = np.abs(times)
    within = [(size >= least) & (size < beyond) for _, least, beyond in EPOCH_UNITS]
    return np.asarray(np.select(within, [times / unit for unit, _, _ in EPOCH_UNITS], np.nan), np.float64)


def epoch_s_of(time: float) -> float:
    """The same of one number."""
    units = (time / unit for unit, least, beyond in EPOCH_UNITS if least <= abs(time) < beyond)
    return float(next(units, np.nan))


def epoch_s_of_date(text: str) -> float:
    """Seconds since 1970 of a date in ISO 8601, in UTC unless it says otherwise. Raises ValueError for what is none, or
    a day alone."""
    if is_day(text):
        raise ValueError("a day without a time")
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def days_fault(times: Floats) -> Fault | None:
    """Refusal of `times` (n) that are a spreadsheet's days for sure."""
    if (day := day_number(times)) is None:
        return None
    told = f"{datetime(1899, 12, 30, tzinfo=UTC) + timedelta(days=day):%Y-%m-%d %H:%M:%S}"
    what = f"its times are a spreadsheet's days ({day:.10g} is {told})"
    return Fault(0, what, "format the column as date and time, and save it again")


def is_day(text: str) -> bool:
    """Tells a date without a time of day: taken for midnight, a day's requests would be one burst."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
