"""The traffic as the controller follows it: windows that are complete go to the detector, each once."""

from collections.abc import Callable
from dataclasses import replace

from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.windows import RATE, Samples, Window, windows


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
        self._window_s = detection.window_s
        self._clock = clock
        self._lag_s = lag_s
        self._arrivals_lag_s = arrivals_lag_s
        self._of_rate = of_rate
        self._detector = Detector(detection, seed)
        self._fed_until_s: dict[bool, float] = {}

    def feed(self, samples: Samples) -> Alarm | None:
        """Feeds the windows that are complete by now; the last alarm among them."""
        if not len(samples):
            return None
        window_s = self._window_s
        first_s = float(samples.arrival_s[0] // window_s * window_s)
        found = None
        # That requests came is known sooner than what became of them.
        for of_arrivals in (True, False) if self._of_rate() else (False,):
            from_s = self._fed_until_s.setdefault(of_arrivals, first_s)
            for window in windows(samples, from_s, self._complete_s(samples, of_arrivals), window_s):
                values = {what: v for what, v in window.values.items() if (what == RATE) is of_arrivals}
                found = self._detector.feed(Window(window.start_s, values)) or found
                self._fed_until_s[of_arrivals] = window.start_s + window_s
        return found

    def known(self, samples: Samples, since_s: float) -> Samples:
        """Samples since then, as far as all is known; who came, as far as that is."""
        came_s = samples.between(since_s, self._complete_s(samples, True)).came_s
        return replace(samples.between(since_s, self._complete_s(samples, False)), came_s=came_s)

    def changed_by_s(self, alarm: Alarm) -> float:
        """The first window that seems changed may hold much of before."""
        return alarm.since_s + self._window_s

    def _complete_s(self, samples: Samples, of_arrivals: bool) -> float:
        """Instant before which all requests are in the log."""
        early = of_arrivals and samples.came_s is not None
        return self._clock() - (self._arrivals_lag_s if early else self._lag_s)
