"""Seconds since 1970 from numbers whose unit nobody tells: s, ms, us or ns, by their size."""

import numpy as np

from cascadia_traces.checks import Floats

EPOCH_UNITS = ((1.0, 1e11), (1e3, 1e14), (1e6, 1e17), (1e9, 1e20))
"""Units in a second, and what a time in them stays below (until the year 5138)."""


def epoch_s(times: Floats) -> Floats:
    """Seconds since 1970 of `times` (n), each by its own size; NaN for what is none."""
    size = np.abs(times)
    within = [size < beyond for _, beyond in EPOCH_UNITS]
    return np.asarray(np.select(within, [times / unit for unit, _ in EPOCH_UNITS], np.nan), np.float64)
