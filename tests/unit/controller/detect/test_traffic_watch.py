"""The traffic as the controller follows it: how long the windows are that arrivals are counted in."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.traffic_watch import TrafficWatch
from cascadia.controller.detect.windows import INPUT, OUTPUT, RATE, Samples, Window, score_of

CHANGED_S, END_S = 3000.0, 4500.0


def changed(rate_rps: float) -> Samples:
    """Requests at even times, eight times as many from `CHANGED_S` on."""
    before = np.arange(0.0, CHANGED_S, 1 / rate_rps)
    after = np.arange(CHANGED_S, END_S, 1 / (8 * rate_rps))
    arrival_s = np.concatenate([before, after])
    ones = np.ones(len(arrival_s), np.int64)
    return Samples(arrival_s, ones, ones)


def noticed(rate_rps: float, detection: Detection | None = None) -> Alarm:
    clock = [0.0]
    watch = TrafficWatch(detection or Detection(), lambda: clock[-1], lag_s=0.0, arrivals_lag_s=0.0, seed=1)
    samples = changed(rate_rps)
    for now_s in np.arange(10.0, END_S, 10.0):
        clock.append(now_s)
        if (alarm := watch.feed(samples.between(0.0, now_s))) is not None:
            return alarm
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize(("rate_rps", "window_s"), [(2.0, 10.0), (0.5, 20.0), (0.25, 40.0), (0.05, 60.0)])
def test_arrivals_are_counted_in_windows_that_usually_hold_ten(rate_rps: float, window_s: float) -> None:
    alarm = noticed(rate_rps)
    assert (alarm.watched, alarm.window_s) == (RATE, window_s)
    assert alarm.changed_by_s == alarm.since_s + window_s


def test_windows_are_as_long_as_was_said_where_that_was_asked_for() -> None:
    assert noticed(0.25, Detection(least_arrivals=0)).window_s == 10.0
    assert noticed(0.25, Detection(window_s=90.0)).window_s == 90.0


def test_equal_lengths_are_equal_whatever_the_rate_and_hide_no_change_of_it() -> None:
    """As of models that answer in one pass. All at once, as a controller sees it that starts after the change."""
    before, after = (
        np.random.default_rng(1).uniform(*span) for span in ((0, 3600, 3600), (3600, 4500, 5400))
    )
    arrival_s = np.sort(np.concatenate([before, after]))
    fives = np.full(len(arrival_s), 5, np.int64)
    watch = TrafficWatch(Detection(), lambda: 4500.0, lag_s=0.0, arrivals_lag_s=0.0, seed=0)
    alarm = watch.feed(Samples(arrival_s, fives, np.ones(len(arrival_s), np.int64)))
    assert alarm is not None
    assert alarm.watched == RATE


def test_a_small_change_hides_no_large_one() -> None:
    rng = np.random.default_rng(1)
    arrival_s = np.sort(np.concatenate([rng.uniform(0, 3600, 3600), rng.uniform(3600, 4500, 5400)]))
    # Half a token more, of a hundred, as the rate jumps.
    tokens = np.where(arrival_s < 3600, 100, 101) + rng.integers(0, 2, len(arrival_s))
    watch = TrafficWatch(Detection(), lambda: 4500.0, lag_s=0.0, arrivals_lag_s=0.0, seed=0)
    alarm = watch.feed(Samples(arrival_s, tokens, np.ones(len(arrival_s), np.int64)))
    assert alarm is not None
    assert (alarm.watched, alarm.small) == (RATE, False)


@pytest.mark.parametrize("later", [0, 1, 3])
def test_a_small_change_leaves_the_evidence_of_others(later: int) -> None:
    """A third of a point of score is noticed while lengths go on to change, and those a moment later."""
    rng, detector = np.random.default_rng(1), Detector()
    alarms = []
    for i in range(1100):
        values = {
            score_of("small"): 80.0 + 0.05 * rng.normal() + (0.3 if i >= 1000 else 0.0),
            OUTPUT: 5.0 + 0.1 * rng.normal() + (2.0 if i >= 1000 + later else 0.0),
        }
        alarms.append(detector.feed(Window(10.0 * i, 10.0 * (i + 1), values)))
    (found,) = [i for i, alarm in enumerate(alarms) if alarm is not None and alarm.watched == OUTPUT]
    assert 1000 + later < found <= 1010 + later
    assert sum(alarm is not None for alarm in alarms) <= 2


def test_that_requests_came_is_known_sooner_than_what_became_of_them() -> None:
    """At 1000 s, answers are logged a minute late, and arrivals half a minute."""
    watch = TrafficWatch(Detection(), lambda: 1000.0, lag_s=60.0, arrivals_lag_s=30.0, seed=0)
    arrival_s = np.arange(0.0, 1000.0, 10.0)
    ones = np.ones(len(arrival_s), np.int64)
    answered = Samples(arrival_s, ones, ones)
    known = watch.known(replace(answered, came_s=arrival_s), 900.0)
    assert known.arrival_s.tolist() == [900.0, 910.0, 920.0, 930.0]
    assert known.arrivals_s.tolist() == [900.0, 910.0, 920.0, 930.0, 940.0, 950.0, 960.0]
    assert watch.known(answered, 900.0).arrivals_s.tolist() == [900.0, 910.0, 920.0, 930.0]


def test_where_rates_are_somebody_elses_only_lengths_are_watched() -> None:
    rng = np.random.default_rng(1)
    arrival_s = np.sort(np.concatenate([rng.uniform(0, 3600, 3600), rng.uniform(3600, 4500, 5400)]))
    ones = np.ones(len(arrival_s), np.int64)

    def alarm_of(tokens: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Alarm | None:
        watch = TrafficWatch(
            Detection(), lambda: 4500.0, lag_s=0.0, arrivals_lag_s=0.0, seed=0, of_rate=lambda: False
        )
        return watch.feed(Samples(arrival_s, tokens, ones))

    assert alarm_of(ones) is None
    longer = alarm_of(np.where(arrival_s < 3600, 100, 200) + rng.integers(0, 9, len(arrival_s)))
    assert longer is not None
    assert longer.watched == INPUT
