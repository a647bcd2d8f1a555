"""Windows of what routers count: as long as asked for, or as few arrivals need, and none across what was not told."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from cascadia.controller.detect.counted import CountedWindows, Look
from cascadia.controller.detect.detect import WEEK_S, Alarm, Detection
from cascadia.controller.detect.traffic_watch import TrafficWatch
from cascadia.controller.detect.windows import COUNTED, RATE, Samples, Window

LOOK_S, CHANGED_S = 5.0, 480.0


def looks(rate_rps: float, until_s: float = 900.0, from_s: float = 0.0) -> list[Look]:
    """Every five seconds and a little, at even arrivals."""
    return [(at, rate_rps * at) for at in np.arange(from_s, until_s, LOOK_S + 0.01).tolist()]


def cut(seen: Sequence[Look], shortest_s: float = LOOK_S, least: int = 10) -> list[Window]:
    return list(CountedWindows(shortest_s, least).next(seen))


@pytest.mark.parametrize(("rate_rps", "length_s"), [(8.0, 5.0), (1.0, 10.0), (0.25, 40.0), (0.01, 60.0)])
def test_windows_usually_hold_ten_and_tell_the_rate(rate_rps: float, length_s: float) -> None:
    found = cut(looks(rate_rps))
    assert {round(w.end_s - w.start_s) for w in found} == {round(length_s)}
    assert [w.values[COUNTED] for w in found] == pytest.approx([rate_rps] * len(found))
    assert all(a.end_s == b.start_s for a, b in pairwise(found))
    assert found[0].start_s == 0.0
    assert 900.0 - found[-1].end_s < length_s + LOOK_S + 1.0


def test_windows_are_no_shorter_than_asked_for_where_few_are_enough() -> None:
    assert {round(w.end_s - w.start_s) for w in cut(looks(8.0), 30.0)} == {30}
    assert {round(w.end_s - w.start_s) for w in cut(looks(0.01), 5.0, 0)} == {5}


def test_nothing_is_told_before_it_is_known_how_many_usually_come() -> None:
    assert cut(looks(8.0, 290.0)) == []


def test_each_window_is_told_once() -> None:
    windows, seen = CountedWindows(LOOK_S, 10), looks(8.0)
    found = [w for stop in range(len(seen) + 1) for w in windows.next(seen[:stop])]
    assert found == cut(seen)


def test_a_stretch_that_was_not_told_is_left_out() -> None:
    found = cut([look for look in looks(8.0) if not 400.0 < look[0] < 460.0])
    assert not any(w.start_s < 430.0 < w.end_s for w in found)
    assert found[-1].end_s > 880.0


def test_counts_that_begin_anew_are_no_change_of_the_rate() -> None:
    again = [(at, came - 8.0 * 600.0 if at >= 600.0 else came) for at, came in looks(8.0)]
    assert [w.values[COUNTED] for w in cut(again)] == pytest.approx([8.0] * len(cut(again)))
    windows = CountedWindows(LOOK_S, 10)
    found = [*windows.next(again[:100]), *windows.next(again)]
    assert len(found) == len(cut(looks(8.0))) - 1


def noticed(before_rps: float, after_rps: float, *, counted: bool) -> Alarm:
    """Poisson traffic of a log that tells of arrivals after 35 s; ticks of 10 s."""
    rng = np.random.default_rng(3)
    arrival_s = np.concatenate(
        [
            np.cumsum(rng.exponential(1 / before_rps, int(before_rps * CHANGED_S))),
            CHANGED_S + np.cumsum(rng.exponential(1 / after_rps, int(after_rps * 400.0))),
        ]
    )
    ones = np.ones(len(arrival_s), np.int64)
    samples = Samples(arrival_s, ones, ones)
    clock = [0.0]
    watch = TrafficWatch(Detection(), lambda: clock[-1], lag_s=60.0, arrivals_lag_s=35.0, seed=1)
    seen: list[Look] = []
    for now_s in np.arange(LOOK_S, CHANGED_S + 400.0, LOOK_S).tolist():
        clock.append(now_s)
        seen.append((now_s, float(np.searchsorted(arrival_s, now_s))))
        if now_s % 10.0 == 0.0:
            alarm = watch.feed(samples.between(0.0, now_s - 35.0), seen if counted else ())
            if alarm is not None:
                return alarm
    raise AssertionError("nothing was noticed")


def test_a_jump_is_noticed_in_half_the_time_where_routers_tell_their_counts() -> None:
    with_log, with_counts = (noticed(6.0, 16.0, counted=counted) for counted in (False, True))
    assert with_counts.watched == with_log.watched == RATE
    assert (with_log.before, with_log.since) == pytest.approx((6.0, 16.0), rel=0.1)
    assert (with_counts.before, with_counts.since) == pytest.approx((6.0, 16.0), rel=0.1)
    # The log's windows have ended 35 s before they are known.
    assert with_counts.at_s - CHANGED_S < 0.6 * (with_log.at_s + 35.0 - CHANGED_S)


def test_who_begins_to_look_late_goes_on_after_a_change() -> None:
    seen = [(at, 6.0 * at + 10.0 * max(0.0, at - CHANGED_S)) for at in np.arange(0.0, 900.0, LOOK_S).tolist()]
    watch = TrafficWatch(Detection(), lambda: 900.0, lag_s=60.0, arrivals_lag_s=35.0, seed=1)
    nobody = Samples(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    alarm = watch.feed(nobody, seen)
    assert alarm is not None
    assert alarm.since == pytest.approx(16.0)
    assert watch.feed(nobody, seen) is None


def test_shorter_windows_need_as_much_more_evidence_so_that_a_week_has_as_many_alarms() -> None:
    detection = Detection()
    assert detection.limit_of(detection.counted_s) * detection.counted_s == pytest.approx(
        detection.streams * WEEK_S
    )
    assert detection.limit_of(4 * detection.window_s) == detection.limit
