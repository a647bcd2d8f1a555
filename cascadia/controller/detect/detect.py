"""Detection of changes in traffic: one stream of evidence for each watched value, and one bound on false alarms
for all.
"""

import random
from collections import defaultdict
from dataclasses import dataclass

from cascadia.controller.detect.e_detector import Evidence
from cascadia.controller.detect.swings import Swings
from cascadia.controller.detect.windows import COUNTED, INPUT, OUTPUT, RATE, Window, shown
from cascadia.controller.shipped import LEAST_ARRIVALS, WINDOW_S

WEEK_S = 7 * 86_400.0
SMALL_LENGTH, SMALL_SCORE = 0.05, 1.0
"""Of a length's logarithm, and of 100."""


@dataclass(frozen=True, slots=True)
class Detection:
    """`false_alarms_per_week`: at most so many, over all `streams`, while traffic is stationary.

    `streams` bounds how many values are watched (the rate of the log and as counted, two lengths, two of each scored
    stage). Ranks are taken among the last `remembered` windows. Arrivals are counted in longer windows where fewer
    than `least_arrivals` usually come in one: a burst that outlasts a window would pass for a change.
    """

    window_s: float = WINDOW_S
    false_alarms_per_week: float = 1.0
    streams: int = 10
    remembered: int = 1440
    least_arrivals: int = LEAST_ARRIVALS

    @property
    def counted_s(self) -> float:
        """Least length of windows in which routers' counts are looked at."""
        return self.window_s / 2.0

    @property
    def limit(self) -> float:
        """Bound on a stream's evidence: the windows that it goes without a false alarm in the mean."""
        return self.limit_of(self.window_s)

    def limit_of(self, window_s: float) -> float:
        """The bound for windows of another length: as many more as go into a week."""
        return self.streams * WEEK_S / min(window_s, self.window_s) / self.false_alarms_per_week


@dataclass(frozen=True, slots=True)
class Alarm:
    """`watched` went from `before` to `since` (medians of windows of `window_s`), as it seems at `since_s`; seen at
    `at_s`. `swings`: it has been there within the hour, and will be where it was.
    """

    watched: str
    before: float
    since: float
    since_s: float
    at_s: float
    window_s: float = 0.0
    swings: bool = False

    @property
    def changed_by_s(self) -> float:
        """The first window that seems changed may hold much of before."""
        return self.since_s + self.window_s

    @property
    def small(self) -> bool:
        """Tells whether replicas have room for it: a length that differs by 5 %, or a score by a point."""
        least = SMALL_LENGTH if self.watched in (INPUT, OUTPUT) else SMALL_SCORE
        return self.watched != RATE and abs(self.since - self.before) < least

    @property
    def asks_little(self) -> bool:
        """Tells whether it asks for no plan of its own, and leaves what is known of other values as it is."""
        return self.small or self.swings

    def __str__(self) -> str:
        told = f"{shown(self.watched, self.since)} instead of {shown(self.watched, self.before)}"
        verb = "swings" if self.swings else "changed"
        return f"{self.watched} {verb}: {told}, since {(self.at_s - self.since_s) / 60:.0f} min"


class Detector:
    """Fed window after window; after an alarm it learns anew what is usual, after a small one of that value alone, and
    after one that swings not even of that: all its levels are. `seed` draws lots where values tie."""

    def __init__(self, detection: Detection | None = None, seed: int = 0) -> None:
        self.detection = detection or Detection()
        self._draw = random.Random(seed).random
        self._streams: dict[str, Evidence] = {}
        self._swings: defaultdict[str, Swings] = defaultdict(Swings)

    def feed(self, window: Window) -> Alarm | None:
        found = None
        for watched, value in window.values.items():
            stream = self._stream(watched)
            limit = self.detection.limit_of(window.end_s - window.start_s)
            if stream is not None and stream.feed(value) >= limit:
                found = self._alarm(watched, stream, window)
                if not found.asks_little:
                    return found
        return found

    def _stream(self, watched: str) -> Evidence | None:
        found = self._streams.get(watched)
        # What is beyond the number that the limit was made for stays unwatched.
        if found is None and len(self._streams) < self.detection.streams:
            found = self._streams[watched] = Evidence(self._draw, self.detection.remembered)
        return found

    def _alarm(self, watched: str, stream: Evidence, window: Window) -> Alarm:
        ago, window_s = stream.changed_before, window.end_s - window.start_s
        before, since = stream.medians(ago)
        # Another rate is the inner loop's business, or else a change each time.
        if watched not in (RATE, COUNTED) and self._swings[watched].back_again(window.end_s, before, since):
            stream.begin_anew()
            since_s = window.end_s - ago * window_s
            return Alarm(watched, before, since, since_s, window.end_s, window_s, swings=True)
        told = RATE if watched == COUNTED else watched
        alarm = Alarm(told, before, since, window.end_s - ago * window_s, window.end_s, window_s)
        if alarm.small:
            del self._streams[watched]
        else:
            # All of them: one change mostly moves several values, and each would ask for the same plan.
            self._streams.clear()
        return alarm
