"""A value that goes to and fro is no change each time; one beyond all that it was is."""

from math import nan

import numpy as np

from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.swings import SWING_S, Swings
from cascadia.controller.detect.windows import INPUT, OUTPUT, RATE, Window

WINDOW_S = 10.0
TURN_S = 400.0


def test_the_third_change_between_two_levels_is_a_swing_and_one_beyond_them_is_not() -> None:
    swings = Swings()
    assert not swings.back_again(0.0, 100.0, 200.0)
    assert not swings.back_again(400.0, 200.0, 100.0)
    assert swings.back_again(800.0, 100.0, 195.0)
    assert not swings.back_again(1200.0, 195.0, 30.0)
    assert not swings.back_again(1600.0, 30.0, 400.0)


def test_what_is_longer_ago_than_an_hour_is_no_swing() -> None:
    swings = Swings()
    swings.back_again(0.0, nan, 200.0)
    swings.back_again(400.0, 200.0, 100.0)
    assert not swings.back_again(SWING_S + 500.0, 100.0, 200.0)


def test_levels_of_which_nothing_is_known_are_none() -> None:
    swings = Swings()
    assert not any(swings.back_again(100.0 * i, nan, nan) for i in range(4))


def alarms(watched: str, value: float, until_s: float, at_last: float) -> list[Alarm]:
    """A value that is twice as high in every other `TURN_S`, beside another that stays, until both jump."""
    rng, detector = np.random.default_rng(0), Detector(Detection(WINDOW_S, streams=4))
    found = []
    for at_s in np.arange(0.0, until_s + 600.0, WINDOW_S).tolist():
        level = value * (2.0 if at_s // TURN_S % 2.0 else 1.0) if at_s < until_s else at_last
        other = 5.0 if at_s < until_s else 6.0
        values = {watched: float(rng.normal(level, 0.05 * value)), INPUT: float(rng.normal(other, 0.1))}
        alarm = detector.feed(Window(at_s, at_s + WINDOW_S, values))
        if alarm is not None:
            found.append(alarm)
    return found


def test_a_swing_stops_being_a_change_and_what_lies_beyond_it_is_seen_at_once() -> None:
    """The jump comes just after a turn: learning anew at each turn missed it for good."""
    until_s = 10 * TURN_S + 60.0
    found = alarms(OUTPUT, 4.0, until_s, at_last=1.0)
    before = [alarm for alarm in found if alarm.at_s <= until_s]
    assert sum(not alarm.swings for alarm in before) <= 3
    after = [alarm for alarm in found if alarm.at_s > until_s and not alarm.swings]
    assert after
    assert after[0].at_s < until_s + 120.0


def test_a_rate_that_swings_is_a_change_each_time() -> None:
    """Where it is watched at all no inner loop follows it."""
    found = alarms(RATE, 4.0, 6 * TURN_S, at_last=4.0)
    assert not any(alarm.swings for alarm in found)
