"""The evidence of a change is, digit by digit, what its formulas say, and it forgets what is too long ago."""

from math import isnan

import numpy as np
import pytest

from cascadia.controller.detect.detect import Alarm
from cascadia.controller.detect.e_detector import BETS, LEAST_P, Evidence
from cascadia.controller.detect.windows import INPUT, OUTPUT, RATE, Samples, windows


def by_formula(values: list[float], tie: float, most: int) -> tuple[list[float], int]:
    """Evidence after each value, and since how many windows the bet that won most has been winning."""
    bets = [(eps, True) for eps in BETS] + [(eps, False) for eps in BETS]
    sums, streaks, since = [0.0] * 6, [1.0] * 6, [0] * 6
    found = []
    for at, value in enumerate(values):
        before = values[max(0, at - most) : at]
        above = sum(v > value for v in before)
        equal = sum(v == value for v in before) + 1
        high = (above + tie * equal) / (len(before) + 1)
        for i, (eps, higher) in enumerate(bets):
            p = max(high if higher else 1.0 - high, LEAST_P)
            won = eps * p ** (eps - 1.0)
            sums[i] = (1.0 + sums[i]) * won
            if streaks[i] <= 1.0:
                streaks[i], since[i] = 1.0, at
            streaks[i] *= won
        found.append(sum(sums) / 6)
    best = max(range(6), key=sums.__getitem__)
    return found, len(values) - since[best]


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize("tie", [0.0, 0.3, 0.999])
def test_it_is_what_ranks_bets_and_sums_give(tie: float, most: int) -> None:
    values = [4.0, 2.0, 2.0, 5.0, 1.0, 4.0, 3.0, 9.0, 9.0, 9.5, 9.0, 11.0, 12.0, 9.0]
    evidence = Evidence(lambda: tie, most)
    expected, before = by_formula(values, tie, most)
    assert [evidence.feed(value) for value in values] == pytest.approx(expected, rel=1e-12)
    assert evidence.changed_before == before
    assert evidence.windows == len(values)


@pytest.mark.parametrize(
    ("ago", "medians"), [(1, (3.0, 8.0)), (2, (2.0, 7.5)), (3, (1.5, 7.0)), (4, (2.0, 5.5))]
)
def test_medians_are_of_the_values_before_and_since(ago: int, medians: tuple[float, float]) -> None:
    evidence = Evidence(lambda: 0.5, 100)
    for value in (2.0, 1.0, 4.0, 7.0, 8.0):
        evidence.feed(value)
    assert evidence.medians(ago) == medians


def test_where_there_was_nothing_before_there_is_no_median() -> None:
    evidence = Evidence(lambda: 0.5, 100)
    evidence.feed(3.0)
    before, since = evidence.medians(5)
    assert isnan(before)
    assert since == 3.0


def test_an_answer_without_tokens_counts_as_one_of_one() -> None:
    samples = Samples(np.array([1.0]), np.zeros(1, np.int64), np.zeros(1, np.int64))
    (window,) = windows(samples, 0.0, 10.0, 10.0)
    assert (window.values[INPUT], window.values[OUTPUT]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("watched", "since", "small"),
    [
        (INPUT, 5.04, True),
        (INPUT, 5.06, False),
        (OUTPUT, 4.96, True),
        (OUTPUT, 4.94, False),
        ("small", 5.99, True),
        ("small", 6.01, False),
        ("small", 3.99, False),
        ("zeta", 5.5, True),
        (RATE, 5.0, False),
    ],
)
def test_replicas_have_room_for_a_twentieth_of_a_length_and_a_point_of_score(
    watched: str, since: float, small: bool
) -> None:
    assert Alarm(watched, 5.0, since, since_s=0.0, at_s=1.0).small is small


@pytest.mark.parametrize(
    ("since", "swings", "little"),
    [(5.04, False, True), (9.0, True, True), (5.04, True, True), (9.0, False, False)],
)
def test_what_is_small_or_swings_asks_for_no_plan_of_its_own(
    since: float, swings: bool, little: bool
) -> None:
    alarm = Alarm(INPUT, 5.0, since, since_s=0.0, at_s=1.0, swings=swings)
    assert alarm.asks_little is little
