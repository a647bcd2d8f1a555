"""The day's and the week's profile of the rate: replicas are there before the load comes that comes at this hour.

A stretch of five minutes is foretold by those at the same time of up to seven days before, or of the same day of up to
four weeks before, whichever has erred less over the last week. Each is taken as many times as the last hour was that
hour, and of them the median. What is foretold counts for the share of it that four of five stretches of the last day
reached, so that a profile that does not hold asks for little more than the load of the moment does; before two such
days are known there is none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from math import ceil

import numpy as np

from cascadia.domain.workload import Floats, Ints

STRETCH_S = 300.0
DAY, WEEK = 288, 7 * 288
"""Stretches of both."""
LAGS = (tuple(DAY * k for k in range(1, 8)), tuple(WEEK * k for k in range(1, 5)))
FEWEST = 2
"""Days of which the median is taken."""
HOUR, KNOWN = 12, 9
"""Stretches by which the level is told, and how many of them must be known: a controller that began anew misses one."""
GAP_S = 3600.0
"""Between two looks, at most: what came when in a longer one nobody knows."""
REMEMBERED = LAGS[1][-1] + DAY
"""Stretches, the latest that were seen whatever their numbers: a clock that is set on for a while forgets no weeks."""
REACHED = 0.2
"""The quantile, over the last day, of what came over what was foretold."""
COMPARED = 48
"""Stretches of the last day, at least."""
LOOKED_BACK = LAGS[1][-1] + WEEK + 2 * DAY
"""Stretches before today: the last week is compared with those at the longest lag before it."""
LEVELS = 0.5, 2.0
"""A day of another level than that is another day."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """`rps` is what counts of the largest rate foretold, `share` (0-1) that part of it; `days`: from how many."""

    rps: float
    share: float
    days: int

    def __str__(self) -> str:
        return f"{self.rps:.3g} req/s foretold by {self.days} days, of which {100 * self.share:.0f} % counts"


class Profile:
    """Rates by number of stretch since the epoch; `known`: those of before."""

    def __init__(self, known: Mapping[int, float] | None = None) -> None:
        self._rps: dict[int, float] = dict(known or {})
        self._today = 0
        self._last: tuple[float, float] | None = None
        self._edge: tuple[int, float] | None = None
        """The stretch that is under way, and the count at its beginning."""
        self._series: tuple[_Series, _Series] | None = None
        self._erred: dict[tuple[int, tuple[int, ...]], tuple[float, float] | None] = {}

    def add(self, at_s: float, came: float) -> list[int]:
        """Counts `came` since any one beginning, and tells which stretches ended. Where it falls, whoever counted has
        begun anew."""
        before, self._last = self._last, (at_s, came)
        if before is None or came < before[1] or not 0.0 <= at_s - before[0] <= GAP_S:
            self._edge = None
            return []
        ended = []
        for number in range(int(before[0] // STRETCH_S) + 1, int(at_s // STRETCH_S) + 1):
            part = (number * STRETCH_S - before[0]) / max(at_s - before[0], 1e-9)
            count = before[1] + part * (came - before[1])
            if self._edge is not None and self._edge[0] == number - 1:
                self._rps.pop(number - 1, None)
                self._rps[number - 1] = (count - self._edge[1]) / STRETCH_S
                ended.append(number - 1)
            self._edge = number, count
        if ended:
            for oldest in list(islice(self._rps, max(0, len(self._rps) - REMEMBERED))):
                del self._rps[oldest]
            self._compare_anew()
        return ended

    def leave_out(self) -> None:
        """The stretch that is under way is none: the clock was set in it."""
        self._last = self._edge = None

    def rates(self, stretches: Iterable[int]) -> dict[int, float]:
        return {number: self._rps[number] for number in stretches if number in self._rps}

    def ahead(self, at_s: float, within_s: float) -> Foretold | None:
        """Foretells the largest rate of the stretches from `at_s` to `within_s` later; None where days are too few."""
        first, last = int(at_s // STRETCH_S), int((at_s + within_s) // STRETCH_S)
        if first // DAY != self._today:
            self._today = first // DAY
            self._compare_anew()
        asked, steps = np.arange(first, last + 1), ceil(within_s / STRETCH_S) + 1
        found = []
        for lags in LAGS:
            rps, days = self._foretell(asked, np.full(len(asked), first - 1), lags)
            if np.isnan(rps).all() or (erred := self._errors(first - 1, steps, lags)) is None:
                continue
            most = int(np.nanargmax(rps))
            found.append((erred[0], Foretold(erred[1] * float(rps[most]), erred[1], int(days[most]))))
        return min(found, key=lambda each: each[0])[1] if found else None

    def _foretell(self, numbers: Ints, known_to: Ints, lags: tuple[int, ...]) -> tuple[Floats, Ints]:
        """Rates of stretches, each by what was known at the end of `known_to`, and from how many days; NaN of too
        few."""
        rates, means = self._known()
        there = np.array([rates[numbers - lag] for lag in lags])
        level = means[known_to] / np.array([means[known_to - lag] for lag in lags])
        found = np.where((level >= LEVELS[0]) & (level <= LEVELS[1]), there * level, np.nan)
        days = (~np.isnan(found)).sum(axis=0)
        return np.where(days >= FEWEST, _medians(found), np.nan), days

    def _errors(self, known_to: int, steps: int, lags: tuple[int, ...]) -> tuple[float, float] | None:
        """Errors of those lags over the last week, so many steps ahead (mean, in logarithms), and what counts
        by the last day. None where too little can be compared."""
        key = steps, lags
        if key not in self._erred:
            week = np.arange(known_to - WEEK + 1, known_to + 1)
            told = self._foretell(week, week - steps, lags)[0]
            # A stretch in which nobody came would be infinitely far off, and decide all.
            held = np.maximum(self._known()[0][week] / told, 1e-3)
            today = held[-DAY:][~np.isnan(held[-DAY:])]
            enough = len(today) >= COMPARED
            share = min(1.0, float(np.quantile(today, REACHED))) if enough else 0.0
            self._erred[key] = (float(np.nanmean(np.abs(np.log(held)))), share) if enough else None
        return self._erred[key]

    def _compare_anew(self) -> None:
        self._erred.clear()
        self._series = None

    def _known(self) -> tuple["_Series", "_Series"]:
        """The rates, and the means of the hours that end with each stretch."""
        if self._series is None:
            # Those of another clock, decades away, would ask for as long an array.
            today = self._today * DAY
            near = {n: rps for n, rps in self._rps.items() if today - LOOKED_BACK <= n < today + 2 * DAY}
            first = min(near, default=0)
            rates = np.full(max(near, default=0) - first + 1, np.nan)
            rates[np.array(list(near), np.int64) - first] = list(near.values())
            before = np.concatenate([np.full(HOUR - 1, np.nan), rates])
            hours = np.lib.stride_tricks.sliding_window_view(before, HOUR)
            known = (~np.isnan(hours)).sum(axis=1)
            means = np.nansum(hours, axis=1) / np.where(known >= KNOWN, known, np.nan)
            self._series = _Series(first, rates), _Series(first, means)
        return self._series


class _Series:
    """Values by number of stretch, NaN where there are none."""

    def __init__(self, first: int, values: Floats) -> None:
        self._first = first
        # The last one stands for every number outside.
        self._values = np.append(values, np.nan)

    def __getitem__(self, numbers: Ints) -> Floats:
        at = numbers - self._first
        return self._values[np.where((at < 0) | (at >= len(self._values)), -1, at)]


def _medians(found: Floats) -> Floats:
    """Medians down the columns, without a word about those that are empty."""
    ordered = np.sort(found, axis=0)  # NaN last
    count = (~np.isnan(found)).sum(axis=0)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(found) - 1)
    columns = np.arange(found.shape[1])
    middle: Floats = (ordered[low, columns] + ordered[high, columns]) / 2.0
    return middle
