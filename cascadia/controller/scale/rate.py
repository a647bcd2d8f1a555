"""The rate that replicas started now will meet: what came, over several windows at once, and where it is going.

A short window knows soonest and errs most. So of each the lower end of an interval is taken, by how unsteadily requests
came of late, and of all these the largest: a jump is seen within the shortest, and bursts that come and go within it
are not taken for one. What the shortest see mostly passes before a replica is ready, so the longer ones alone tell how
many are kept. A rise that a line through the last ten minutes shows is followed on to when a replica that
starts now is ready.

Bursts that passed of late before a replica was ready are not started for either: of a short window's rate beyond the
steady one counts the share that was still there when a replica would have been (`persistence.py`).
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from cascadia.controller.scale.persistence import share_that_stays
from cascadia.controller.scale.windows import (
    STEADY_S,
    SURE,
    WINDOWS_S,
    counts_of,
    least_rps,
    unsteady,
)
from cascadia.domain.workload import Floats

REMEMBERED_S = 7200.0
PAST_S, USUAL_S, DAY_S = 300.0, 900.0, 86_400.0
"""The last day is remembered in stretches of `PAST_S`, and told of from `USUAL_S` on."""
TREND_S, BIN_S = 600.0, 60.0
OFF_THE_LINE = 3.0
"""So many times the variance that arrivals have anyway."""
MOST_AHEAD = 0.15
"""Of the rate: a line goes no further."""


class Arrivals:
    """Record of how many requests had come by when."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()
        self._past_rps: deque[float] = deque(maxlen=round(DAY_S / PAST_S))
        self._past_until_s: tuple[float, float] | None = None

    def add(self, at_s: float, came: float) -> None:
        """`came`: since any one beginning. Where it falls, whoever counted has begun anew."""
        if self._seen and came < self._seen[-1][1]:
            self._seen.clear()
            self._past_until_s = None
        self._seen.append((at_s, came))
        before_s, before = self._past_until_s or (at_s, came)
        if self._past_until_s is None or at_s - before_s >= PAST_S:
            if at_s > before_s:
                self._past_rps.append((came - before) / (at_s - before_s))
            self._past_until_s = at_s, came
        while self._seen[0][0] < at_s - REMEMBERED_S:
            self._seen.popleft()

    @property
    def looks(self) -> Sequence[tuple[float, float]]:
        """The last hours', oldest first: when, and how many had come by then."""
        return self._seen

    def ahead_rps(self, startup_s: float) -> float | None:
        """Foresees the rate in `startup_s` from the last look on; None before the shortest window is full."""
        if not self._seen:
            return None
        at_s, came = np.array(self._seen).T
        spans = [span for span in WINDOWS_S if at_s[-1] - at_s[0] >= span]
        if not spans:
            return None
        rate_rps = _of_windows(at_s, came, spans, startup_s)
        if at_s[-1] - at_s[0] < TREND_S:
            return rate_rps
        rise = _rise(counts_of(at_s, came, BIN_S))
        # The mean of a steady window is the rate of its middle, half a window ago.
        return rate_rps + min(rise * (startup_s + STEADY_S / 2.0), MOST_AHEAD * rate_rps)

    def lasting_rps(self, startup_s: float = 0.0) -> float | None:
        """The rate without bursts that come and go within the longest window; None before that is full."""
        if not self._seen or self._seen[-1][0] - self._seen[0][0] < WINDOWS_S[-1]:
            return None
        at_s, came = np.array(self._seen).T
        return _of_windows(at_s, came, WINDOWS_S[-1:], startup_s)

    def usual_rps(self) -> float | None:
        """The mean rate of the last day that a request meets; None before there is a quarter of an hour of it."""
        past = np.array(self._past_rps)
        if len(past) * PAST_S < USUAL_S or not past.sum():
            return None
        return float((past**2).sum() / past.sum())

    def steady_rps(self, within: float) -> float | None:
        """The mean of all that is remembered, where that is two hours and no ten minutes of it are farther from the
        mean than the share `within`."""
        if not self._seen or self._seen[-1][0] - self._seen[0][0] < REMEMBERED_S - BIN_S:
            return None
        at_s, came = np.array(self._seen).T
        rates = counts_of(at_s, came, TREND_S) / TREND_S
        mean = float(rates.mean())
        return mean if float(np.abs(rates - mean).max()) <= within * mean else None


def _of_windows(at_s: Floats, came: Floats, spans: Sequence[float], startup_s: float) -> float:
    """The largest of what these windows are sure of, as far as such rates stay until a replica is ready, and the steady
    one's mean where that is full."""
    rates = [least_rps(counts_of(at_s, came, span), span) for span in spans]
    if at_s[-1] - at_s[0] < STEADY_S:
        return max(rates)
    steady_rps = float(counts_of(at_s, came, STEADY_S)[-1]) / STEADY_S
    for i, span in enumerate(spans):
        if (more_rps := rates[i] - steady_rps) > 0.0:
            rates[i] = steady_rps + more_rps * share_that_stays(at_s, came, span, startup_s, more_rps)
    return max(*rates, steady_rps)


def _rise(counts: Floats) -> float:
    """Requests a second, a second: the lower end of what a line through the last `TREND_S` rises by. 0 where that is
    not sure, and where they are not on a line, e.g. on the two levels of a jump."""
    rates = counts[-round(TREND_S / BIN_S) :] / BIN_S
    at = BIN_S * (np.arange(len(rates)) - (len(rates) - 1) / 2.0)
    spread = float((at**2).sum())
    slope = float((at * rates).sum()) / spread
    rest = float(((rates - rates.mean() - slope * at) ** 2).sum()) / (len(rates) - 2)
    if rest > OFF_THE_LINE * unsteady(counts) * float(rates.mean()) / BIN_S:
        return 0.0
    return max(0.0, slope - SURE * float(np.sqrt(rest / spread)))
