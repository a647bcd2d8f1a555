"""A summary's intervals hold what they promise, and the judge is measured on what was checked alone."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.profile.quality.journal import Done
from cascadia.profile.quality.summary import mean_of, stage_summary


def row(number: int, score: float, quality: float | None) -> Done:
    return Done(f"q{number}", "small", score, quality=quality, input_tokens=10, output_tokens=20)


def test_of_right_and_wrong_answers_the_interval_is_wilsons() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    known = {
        (81, 263): (25.53, 36.62),
        (15, 148): (6.24, 16.05),
        (0, 20): (0.0, 16.11),
        (1, 29): (0.61, 17.18),
    }
    for (right, of), (low, high) in known.items():
        found = mean_of(np.array([100.0] * right + [0.0] * (of - right)))
        assert found == pytest.approx((100 * right / of, low, high), abs=0.006)


def test_of_scores_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = [
        interval.low <= 200 / 6 <= interval.high
        for interval in (mean_of(100 * rng.beta(1, 2, 60)) for _ in range(2_000))
    ]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_one_score_says_next_to_nothing() -> None:
    assert mean_of(np.array([40.0])) == (40.0, 0.0, 100.0)


def test_only_checked_answers_tell_of_quality_and_of_the_judge() -> None:
    rows = [row(0, 90, 100.0), row(1, 10, 0.0), row(2, 50, None), replace(row(3, 50, None), cut=True)]
    found = stage_summary("small", "m", rows, {"HTTP 500": 2}, judged=True)
    assert (found.questions, found.checked, found.cut) == (4, 2, 1)
    assert found.score.mean == 50.0
    assert found.quality is not None
    assert found.quality.mean == 50.0
    assert found.agreement is not None
    assert found.agreement.auc == 1.0


def test_a_check_is_no_judge_of_itself() -> None:
    rows = [row(0, 100, 100.0), row(1, 0, 0.0)]
    assert stage_summary("small", "m", rows, {}, judged=False).agreement is None
