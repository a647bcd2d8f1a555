"""The traffic as the controller follows it: windows that are complete go to the detector, each once.

Requests are counted in longer windows where few come: a burst that outlasts a window would pass for a change.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from cascadia.controller.detect.counted import LEARNT_S, CountedWindows, Look, usual_length_s
from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.windows import RATE, Samples, windows


class TrafficWatch:
    """`lag_s`: how late an answered request may enter the log; `arrivals_lag_s`: that it came. `of_rate` tells whether
    a change of the rate is one, just now."""

    def __init__(
        self,
        detection: Detection,
        clock: Callable[[], float],
        *,
        lag_s: float,
        arrivals_lag_s: float,
        seed: int,
        of_rate: Callable[[], bool] = lambda: True,
    ) -> None:
        self._window_s, self._least_arrivals = detection.window_s, detection.least_arrivals
        self._clock = clock
        self._lag_s = lag_s
        self._arrivals_lag_s = arrivals_lag_s
        self._of_rate = of_rate
        self._detector = Detector(detection, seed)
        self._counted = CountedWindows(detection.counted_s, detection.least_arrivals)
        self._fed_until_s: dict[bool, float] = {}
        self._changed_s = -inf
        self._counting_s: float | None = None

    def feed(self, samples: Samples, looks: Sequence[Look] = ()) -> Alarm | None:
        """Feeds the windows that are complete by now; the last alarm among them. `looks`: at the routers' counts, of
        the last hours."""
        found = self._feed_counted(looks) if self._of_rate() else None
        if not len(samples):
            return found
        first_s = float(samples.arrival_s[0] // self._window_s * self._window_s)
        if self._counting_s is None:
            self._counting_s = self._to_count_in_s(samples, first_s)
        # That requests came is known sooner than what became of them.
        for of_arrivals in (True, False) if self._of_rate() else (False,):
            window_s = self._counting_s if of_arrivals else self._window_s
            if window_s is None:
                continue
            # What is usual is learnt anew from a change on: the log tells what came before it when that is known.
            from_s = max(self._fed_until_s.setdefault(of_arrivals, first_s), self._changed_s)
            for window in windows(samples, from_s, self._complete_s(samples, of_arrivals), window_s):
                values = {what: v for what, v in window.values.items() if (what == RATE) is of_arrivals}
                alarm = self._detector.feed(replace(window, values=values))
                self._fed_until_s[of_arrivals] = window.end_s
                if alarm is None:
                    continue
                if not alarm.asks_little:
                    self._changed(alarm)
                # One that asks for nothing hides none that does.
                if found is None or found.asks_little or not alarm.asks_little:
                    found = alarm
        return found

    def _feed_counted(self, looks: Sequence[Look]) -> Alarm | None:
        found = None
        for window in self._counted.next(looks):
            if (alarm := self._detector.feed(window)) is not None:
                self._changed(alarm)
                found = alarm
        return found

    def _changed(self, alarm: Alarm) -> None:
        self._counting_s = None
        self._counted.forget()
        self._changed_s = alarm.changed_by_s

    def known(self, samples: Samples, since_s: float) -> Samples:
        """Samples since then, as far as all is known; who came, as far as that is."""
        came_s = samples.between(since_s, self._complete_s(samples, True)).came_s
        return replace(samples.between(since_s, self._complete_s(samples, False)), came_s=came_s)

    def _to_count_in_s(self, samples: Samples, first_s: float) -> float | None:
        """Length of the windows that arrivals are counted in, from one alarm to the next; None where too few minutes
        are known."""
        until_s = self._complete_s(samples, True)
        if self._least_arrivals and until_s - first_s < LEARNT_S:
            return None
        came = len(samples.between(until_s - LEARNT_S, until_s).arrivals_s)
        return usual_length_s(self._window_s, self._least_arrivals, came)

    def _complete_s(self, samples: Samples, of_arrivals: bool) -> float:
        """Instant before which all requests are in the log."""
        early = of_arrivals and samples.came_s is not None
        return self._clock() - (self._arrivals_lag_s if early else self._lag_s)
