"""Gears by measured rate: whole periods, equal ranges, and no lighter load's gear while many wait."""

import numpy as np

from cascadia.planner.over_time.by_rate import RateRule, settled

RULE = RateRule(most_rps=40.0, ranges=4, period_s=1.0)


def nobody(_: float) -> int:
    return 0


def each_second(*counts: int) -> np.ndarray:
    """Arrivals evenly over each second."""
    return np.concatenate([t + np.arange(n) / max(n, 1) for t, n in enumerate(counts)])


def in_force(counts: tuple[int, ...], waiting: object = nobody) -> list[int]:
    """The range in force in each second that has arrivals."""
    arrival_s = each_second(*counts)
    ranges = RULE.ranges_of(arrival_s, waiting)  # type: ignore[arg-type]
    return [int(ranges[np.searchsorted(arrival_s, t)]) for t, n in enumerate(counts) if n]


def test_ranges_are_equal() -> None:
    assert RULE.tops_rps.tolist() == [10.0, 20.0, 30.0, 40.0]


def test_a_rate_holds_for_the_next_period() -> None:
    assert in_force((5, 35, 12, 5, 5)) == [0, 0, 3, 1, 0]


def test_beyond_the_largest_rate_the_last_range_holds() -> None:
    assert in_force((90, 1)) == [0, 3]


def test_a_queue_keeps_the_gear() -> None:
    """The rate falls to 5/s; with two waiting that is below 8 times two."""
    assert in_force((35, 5, 5, 5), lambda t: 2 if t < 2.5 else 0) == [0, 3, 3, 0]


def test_nobody_asks_nothing() -> None:
    assert RULE.ranges_of(np.zeros(0), nobody).size == 0


def test_it_settles_on_queues_of_its_own_making() -> None:
    """Whoever gets the heavy range waits three seconds; so the queue of the burst keeps its range."""
    arrival_s = each_second(35, 5, 5, 5, 5)

    def play(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return arrival_s, arrival_s + np.where(ranges == 3, 3.0, 0.0)

    ranges = settled(lambda waiting: RULE.ranges_of(arrival_s, waiting), play)
    again = RULE.ranges_of(
        arrival_s,
        lambda t: int((arrival_s < t).sum() - (np.sort(play(ranges)[1]) < t).sum()),
    )
    assert (ranges == again).all()
    assert ranges.max() == 3
