"""Scale from data to pixels, with ticks at round values."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cascadia.report.charts.svg import Floats
from cascadia.report.numbers import figures

Format = Callable[[float], str]
Range = tuple[float, float]

TINY = 1e-280
"""Differences and logarithms of less are lost to the arithmetic."""
MOST_DECADES = 1e15
"""What a log scale spans at most; smaller values fall off its end."""


@dataclass(frozen=True, slots=True)
class Scale:
    """`low`..`high` in data lie at `start`..`end` in pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: ArrayLike) -> Floats:
        """Pixels; NaN where a value is not finite or, on a log scale, not positive."""
        data = np.asarray(values, np.float64)
        low, high = self.low, self.high
        data = np.where(np.isfinite(data), data, np.nan)
        if self.log:
            data = np.log(np.where(data > 0, data, np.nan))
            low, high = math.log(low), math.log(high)
        return self.start + (data - low) / (high - low) * (self.end - self.start)

    def at(self, value: float) -> float:
        return float(self(value))

    def holds(self, value: float) -> bool:
        slack = 1e-9 * (abs(self.low) + abs(self.high))
        return self.low - slack <= value <= self.high + slack

    def ticks(self, wanted: int) -> list[float]:
        return (
            log_ticks(self.low, self.high, wanted) if self.log else linear_ticks(self.low, self.high, wanted)
        )


def linear_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Ticks: about `wanted` multiples of 1, 2, 2.5 or 5 times a power of ten within low..high."""
    step = nice_step((high - low) / max(1, wanted))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # 3 * 0.1 is not 0.3 to the last digit, and labels would show it.
    return [0.0 if i == 0 else float(f"{i * step:.12g}") for i in range(first, last + 1)]


def log_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Powers of ten, with 2 and 5 times or only 3 times them between where there is room."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    candidates: list[tuple[float, ...]] = [(1, 2, 5), (1, 3), (1,)]
    for mantissas in candidates:
        ticks = [m * 10.0**d for d in decades for m in mantissas]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= wanted + 2:
            return ticks if len(ticks) > 1 else linear_ticks(low, high, wanted)
    return ticks[:: math.ceil(len(ticks) / wanted)]


def nice_step(rough: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough * (1 - 1e-9))


def span(values: Iterable[ArrayLike], *, log: bool, zero: bool = False, pad: float = 0.0) -> Range:
    """The range of all finite (on a log scale: positive) values, never empty; `zero` includes zero."""
    arrays = [np.ravel(np.asarray(v, np.float64)) for v in values]
    data = np.concatenate(arrays) if arrays else np.empty(0)
    data = data[np.isfinite(data) & ((data > TINY) if log else True)]
    if not len(data):
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = float(data.min()), float(data.max())
    if log:
        low = max(low, high / MOST_DECADES)
        ratio = (high / low) ** pad
        low, high = low / ratio, high * ratio
        return (low, high) if high > low * 1.2 else (low / 1.5, high * 1.5)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) * pad
    low, high = (low if zero and low == 0 else low - room), (high if zero and high == 0 else high + room)
    if high - low > max(1e-9 * max(abs(low), abs(high)), TINY):
        return low, high
    margin = abs(high) * 0.1 if abs(high) > TINY else 1.0
    return low - margin, high + margin


def flattened(values: Iterable[ArrayLike]) -> bool:
    """Tells whether on a linear axis a few far values would leave the other nine tenths less than a quarter of it.

    >>> flattened([[1, 2, 3, 4]]), flattened([[1, 2, 3, 200]]), flattened([[0, 1, 200]])
    (False, True, False)
    """
    data = np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in values] or [np.empty(0)])
    data = data[np.isfinite(data)]
    if len(data) < 3 or data.min() <= 0:
        return False
    return bool(np.quantile(data, 0.9, method="lower") < 0.25 * data.max())


def rounded(limits: Range, wanted: int) -> Range:
    """Limits widened to the next ticks of a linear scale."""
    step = nice_step((limits[1] - limits[0]) / max(1, wanted))
    return math.floor(limits[0] / step + 1e-9) * step, math.ceil(limits[1] / step - 1e-9) * step


def plain(value: float) -> str:
    """A tick's text: thousands apart, and from a million on with its unit."""
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return figures(value / size, 4) + unit
    return figures(value, 4)
