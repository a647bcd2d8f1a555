"""Detection of changes in traffic: one stream of evidence for each watched value, and one bound on false alarms
for all.
"""

import random
from dataclasses import dataclass

from cascadia.controller.detect.e_detector import Evidence
from cascadia.controller.detect.windows import INPUT, OUTPUT, RATE, Window, shown

WEEK_S = 7 * 86_400.0
SMALL_LENGTH, SMALL_SCORE = 0.05, 1.0
"""Of a length's logarithm, and of 100."""


@dataclass(frozen=True, slots=True)
class Detection:
    """`false_alarms_per_week`: at most so many, over all `streams`, while traffic is stationary.

    `streams` bounds how many values are watched (rate, two lengths, two of each scored stage). Ranks are taken among
    the last `remembered` windows.
    """

    window_s: float = 60.0
    false_alarms_per_week: float = 1.0
    streams: int = 9
    remembered: int = 1440

    @property
    def limit(self) -> float:
        """Bound on a stream's evidence: the windows that it goes without a false alarm in the mean."""
        return self.streams * WEEK_S / self.window_s / self.false_alarms_per_week


@dataclass(frozen=True, slots=True)
class Alarm:
    """`watched` went from `before` to `since` (medians of windows), as it seems at `since_s`; seen at `at_s`."""

    watched: str
    before: float
    since: float
    since_s: float
    at_s: float

    @property
    def small(self) -> bool:
        """Tells whether replicas have room for it: a length that differs by 5 %, or a score by a point."""
        least = SMALL_LENGTH if self.watched in (INPUT, OUTPUT) else SMALL_SCORE
        return self.watched != RATE and abs(self.since - self.before) < least

    def __str__(self) -> str:
        told = f"{shown(self.watched, self.since)} instead of {shown(self.watched, self.before)}"
        return f"{self.watched} changed: {told}, since {(self.at_s - self.since_s) / 60:.0f} min"


class Detector:
    """Fed window after window; after an alarm it learns anew what is usual. `seed` draws lots where values tie."""

    def __init__(self, detection: Detection | None = None, seed: int = 0) -> None:
        self.detection = detection or Detection()
        self._draw = random.Random(seed).random
        self._streams: dict[str, Evidence] = {}

    def feed(self, window: Window) -> Alarm | None:
        at_s = window.start_s + self.detection.window_s
        for watched, value in window.values.items():
            stream = self._stream(watched)
            if stream is not None and stream.feed(value) >= self.detection.limit:
                return self._alarm(watched, stream, at_s)
        return None

    def _stream(self, watched: str) -> Evidence | None:
        found = self._streams.get(watched)
        # What is beyond the number that the limit was made for stays unwatched.
        if found is None and len(self._streams) < self.detection.streams:
            found = self._streams[watched] = Evidence(self._draw, self.detection.remembered)
        return found

    def _alarm(self, watched: str, stream: Evidence, at_s: float) -> Alarm:
        ago = stream.changed_before
        before, since = stream.medians(ago)
        self._streams.clear()
        return Alarm(watched, before, since, at_s - ago * self.detection.window_s, at_s)
