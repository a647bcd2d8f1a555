"""What admission learns of a stage: how long its answers take, so that who would be late need not try."""

import random

import pytest

from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.router.replicas.admission import Admission
from cascadia.router.replicas.pace import IN_A_ROW, MOST_PASSED, PASSED, AnswerTimes
from cascadia.router.settings.model import Limits


def test_nine_in_ten_answers_are_there_by_the_time_that_is_expected() -> None:
    """Exponential times of mean 2 s: the 90th percentile is 2 ln 10 = 4.6 s."""
    admission = Admission("small", [], LeastOutstanding(), Limits())
    assert admission.finish_s(None) == 0.0
    rng, over = random.Random(3), 0
    for number in range(6_000):
        seconds = rng.expovariate(0.5)
        over += number >= 1_000 and seconds > admission.times.p90_s
        admission.times.took(seconds)
    assert over / 5_000 == pytest.approx(0.1, abs=0.02)


def test_a_short_answer_takes_its_share_of_the_mean_length() -> None:
    admission = Admission("small", [], LeastOutstanding(), Limits())
    admission.times.took(8.0)
    for _ in range(200):
        admission.length.seen(100)
    assert admission.finish_s(None) == pytest.approx(8.0)
    assert admission.finish_s(10_000) == pytest.approx(8.0)
    assert admission.finish_s(25) == pytest.approx(2.0)


def known(*seconds: float) -> AnswerTimes:
    times = AnswerTimes()
    for each in seconds:
        times.took(each)
    return times


def test_one_answer_that_takes_an_hour_is_not_what_the_next_is_taken_to_take() -> None:
    times = known(*[2.0] * 50)
    times.took(3600.0)
    assert times.typical_s < 1.5 * 2.0
    assert times.p90_s < 1.5 * 2.0
    for _ in range(200):
        times.took(30.0)
    assert times.typical_s == pytest.approx(30.0, rel=0.01), "what all answers take is learnt all the same"


def test_answers_that_are_given_up_in_a_row_say_that_a_stage_has_become_slow() -> None:
    times = known(*[2.0] * 50)
    before_s = times.p90_s
    for seconds in (30.0, 20.0):
        times.outlasted(seconds)
    times.took(1.9)
    for seconds in (30.0, 20.0, 1.0, 1.5):
        times.outlasted(seconds)
    assert times.p90_s <= before_s, "two of three tell nothing, nor who gives up before an answer is due"
    times.outlasted(25.0)
    assert times.p90_s == pytest.approx(22.0)


def test_what_never_answered_is_known_by_its_first_answer() -> None:
    times = known()
    for _ in range(IN_A_ROW):
        times.outlasted(0.01)
    times.took(5.0)
    assert times.p90_s == 5.0


def test_a_stage_that_all_pass_over_is_looked_at_ever_less_often_until_it_answers_in_time() -> None:
    times, now_s = known(60.0), 1000.0

    def passed_over_until_looked() -> int:
        return next(n for n in range(1, 2 * MOST_PASSED) if times.looks(now_s))

    waits = []
    for _ in range(9):
        waits.append(passed_over_until_looked())
        assert not any(times.looks(now_s + 59.0) for _ in range(2 * MOST_PASSED)), "one at a time"
        now_s += 60.0
        times.outlasted(20.0)
    assert waits == [min(PASSED * 2**k, MOST_PASSED) for k in range(9)]
    found_s = []
    for _ in range(3):
        assert passed_over_until_looked()
        now_s += 60.0
        times.took(9.0)
        found_s.append(times.p90_s)
    assert found_s == [30.0, 15.0, 9.0]
    assert passed_over_until_looked() == PASSED
