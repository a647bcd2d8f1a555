"""What admission learns of a stage: how long its answers take, so that who would be late need not try."""

import random

import pytest

from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.router.replicas.admission import Admission
from cascadia.router.settings.model import Limits


def test_nine_in_ten_answers_are_there_by_the_time_that_is_expected() -> None:
    """Exponential times of mean 2 s: the 90th percentile is 2 ln 10 = 4.6 s."""
    admission = Admission("small", [], LeastOutstanding(), Limits())
    assert admission.finish_s(None) == 0.0
    rng, over = random.Random(3), 0
    for number in range(6_000):
        seconds = rng.expovariate(0.5)
        over += number >= 1_000 and seconds > admission.p90_s
        admission.took(seconds)
    assert over / 5_000 == pytest.approx(0.1, abs=0.02)


def test_a_short_answer_takes_its_share_of_the_mean_length() -> None:
    admission = Admission("small", [], LeastOutstanding(), Limits())
    admission.took(8.0)
    for _ in range(200):
        admission.length.seen(100)
    assert admission.finish_s(None) == pytest.approx(8.0)
    assert admission.finish_s(10_000) == pytest.approx(8.0)
    assert admission.finish_s(25) == pytest.approx(2.0)
