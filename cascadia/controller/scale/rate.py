"""The rate that replicas started now will meet: what came, over several windows at once.

A short window knows soonest and errs most. So of those of half a minute and a minute the lower end of an interval is
taken, by how unsteadily requests came of late, those of two and five minutes as they are, and of all these the largest:
a jump is seen within the shortest, and bursts that come and go within it are not taken for one. What the shortest see
mostly passes before a replica is ready, so the rate of two minutes alone tells how many are kept, as in the forty lines
that the benchmark compares with. A fall that shorter windows see is not believed sooner: the minute so saved is the one
in which the next burst comes. No line is followed beyond what came: replicas for a rise that was still to come cost 4 %
more on a sine of 78 minutes.

Bursts that passed of late before a replica was ready are not started for either: of a short window's rate beyond the
steady one counts the share that was still there when a replica would have been (`persistence.py`).
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from cascadia.controller.scale.persistence import share_that_stays
from cascadia.controller.scale.windows import (
    RATE_S,
    SHORT_S,
    STEADY_S,
    counts_of,
    least_rps,
    most_rps,
)
from cascadia.domain.workload import Floats

REMEMBERED_S = 7200.0
PAST_S, USUAL_S, DAY_S = 300.0, 900.0, 86_400.0
"""The last day is remembered in stretches of `PAST_S`, and told of from `USUAL_S` on."""
LEVEL_S, BIN_S = 600.0, 60.0
STEADY = 0.15
"""Ten-minute rates that are no farther from their mean are one rate."""
OTHER = 1.5
"""So many times the rate that a plan was made for, or that part of it, is another. Half an hour of 2.5 times was no
better than two hours: three changes in a day cost 2 % more so, since moves for gain become dearer with each."""
NONE: Mapping[float, float] = {}


class Arrivals:
    """Record of how many requests had come by when."""

    def __init__(self) -> None:
        self._at_s, self._came = array("d"), array("d")
        self._past_rps: deque[float] = deque(maxlen=round(DAY_S / PAST_S))
        self._past_until_s: tuple[float, float] | None = None

    def add(self, at_s: float, came: float) -> None:
        """`came`: since any one beginning. Where it falls, whoever counted has begun anew."""
        if self._came and came < self._came[-1]:
            del self._at_s[:], self._came[:]
            self._past_until_s = None
        self._at_s.append(at_s)
        self._came.append(came)
        before_s, before = self._past_until_s or (at_s, came)
        if self._past_until_s is None or at_s - before_s >= PAST_S:
            if at_s > before_s:
                self._past_rps.append((came - before) / (at_s - before_s))
            self._past_until_s = at_s, came
        old = bisect_left(self._at_s, at_s - REMEMBERED_S)
        del self._at_s[:old], self._came[:old]

    @property
    def looks(self) -> Sequence[tuple[float, float]]:
        """The last hours', oldest first: when, and how many had come by then."""
        return list(zip(self._at_s, self._came, strict=True))

    def _arrays(self) -> tuple[Floats, Floats]:
        return np.array(self._at_s), np.array(self._came)

    def ahead_rps(self, startup_s: float, peaks: Mapping[float, float] = NONE) -> float | None:
        """Foresees the rate in `startup_s` from the last look on; None before the shortest window is full. `peaks`: how
        far windows of such lengths (s) go above the mean of a load that is as meant; what is more is another mean."""
        if not self._at_s:
            return None
        at_s, came = self._arrays()
        rates = [
            _sure(at_s, came, span, startup_s) / peaks.get(span, 1.0) for span in SHORT_S if _full(at_s, span)
        ]
        steady = {RATE_S, STEADY_S, *(span for span in peaks if span > STEADY_S)}
        rates += [_mean(at_s, came, span) / peaks.get(span, 1.0) for span in steady if _full(at_s, span)]
        return max(rates, default=None)

    def lasting_rps(self, peaks: Mapping[float, float] = NONE) -> float | None:
        """The rate of the last two minutes; None before so long was seen. `peaks` as of `ahead_rps`."""
        if not self._at_s:
            return None
        at_s, came = self._arrays()
        return _mean(at_s, came, RATE_S) / peaks.get(RATE_S, 1.0) if _full(at_s, RATE_S) else None

    def may_be_rps(self, peaks: Mapping[float, float] = NONE) -> float:
        """The most that the rate of the last half minute may be; 0 before that was seen. `peaks` as of `ahead_rps`."""
        at_s, came = self._arrays()
        span_s = SHORT_S[0]
        if not _full(at_s, span_s):
            return 0.0
        return most_rps(counts_of(at_s, came, span_s), span_s) / peaks.get(span_s, 1.0)

    def usual_rps(self) -> float | None:
        """The mean rate of the last day that a request meets; None before there is a quarter of an hour of it."""
        past = np.array(self._past_rps)
        if len(past) * PAST_S < USUAL_S or not past.sum():
            return None
        return float((past**2).sum() / past.sum())

    def other_rps(self, planned_rps: float) -> float | None:
        """Another rate than the planned one that has come to stay: two hours, no ten minutes of which are far from
        their mean."""
        if not self._at_s or self._at_s[-1] - self._at_s[0] < REMEMBERED_S - BIN_S:
            return None
        at_s, came = self._arrays()
        rates = counts_of(at_s, came, LEVEL_S) / LEVEL_S
        mean = float(rates.mean())
        steady = float(np.abs(rates - mean).max()) <= STEADY * mean
        other = planned_rps and not 1.0 / OTHER < mean / planned_rps < OTHER
        return mean if steady and other else None


def _full(at_s: Floats, span_s: float) -> bool:
    return bool(at_s[-1] - at_s[0] >= span_s)


def _mean(at_s: Floats, came: Floats, span_s: float) -> float:
    return float(counts_of(at_s, came, span_s)[-1]) / span_s


def _sure(at_s: Floats, came: Floats, span_s: float, startup_s: float) -> float:
    """The least that the rate of the last `span_s` is; of what that is beyond the steady rate, the share that such
    rates still had when a replica was ready."""
    rate_rps = least_rps(counts_of(at_s, came, span_s), span_s)
    if (
        not _full(at_s, STEADY_S)
        or (more_rps := rate_rps - (steady_rps := _mean(at_s, came, STEADY_S))) <= 0.0
    ):
        return rate_rps
    return steady_rps + more_rps * share_that_stays(at_s, came, span_s, startup_s, more_rps)
