"""The isotonic fit is the best non-decreasing map there is, and reliability tells how far scores are off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.calibration import Bin, calibrate, calibration_error, reliability

pairs = st.lists(st.tuples(st.integers(0, 20), st.floats(0, 100)), min_size=1, max_size=40)


@given(pairs)
def test_it_is_scipys_isotonic_regression(rows: list[tuple[int, float]]) -> None:
    score, quality = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    fit = calibrate(score, quality)
    levels, at = np.unique(score, return_inverse=True)
    weight = np.bincount(at).astype(float)
    known = isotonic_regression(np.bincount(at, weights=quality) / weight, weights=weight)
    assert fit(levels) == pytest.approx(known.x, abs=1e-9)


@given(pairs)
def test_it_never_falls_and_keeps_the_mean(rows: list[tuple[int, float]]) -> None:
    score, quality = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    fit = calibrate(score, quality)
    assert (np.diff(fit(np.linspace(0, 20, 200))) >= -1e-9).all()
    assert fit(score).mean() == pytest.approx(quality.mean())


def test_a_known_answer() -> None:
    fit = calibrate(np.array([10.0, 20.0, 30.0, 40.0]), np.array([10.0, 50.0, 30.0, 80.0]))
    assert fit.quality.tolist() == [10.0, 40.0, 40.0, 80.0]
    assert fit(np.array([0.0, 15.0, 25.0, 99.0])).tolist() == [10.0, 25.0, 40.0, 80.0]


def test_a_judge_that_is_too_kind_is_set_right_on_other_questions() -> None:
    rng = np.random.default_rng(3)
    quality = rng.uniform(0, 100, 4_000)
    score = np.clip(60 + 0.4 * quality + 5 * rng.normal(size=4_000), 0, 100)
    fit = calibrate(score[:2_000], quality[:2_000])
    before = calibration_error(reliability(score[2_000:], quality[2_000:]))
    after = calibration_error(reliability(fit(score[2_000:]), quality[2_000:]))
    assert before > 25
    assert after < 3


def test_reliability_keeps_equal_scores_together_and_loses_no_pair() -> None:
    score, quality = np.array([50.0] * 6 + [90.0] * 2), np.array([100.0, 0.0] * 4)
    assert reliability(score, quality, bins=4) == (Bin(6, 50.0, 50.0), Bin(2, 90.0, 50.0))
    assert calibration_error(reliability(score, quality, bins=4)) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("score", "quality", "said"),
    [
        ([], [], "do not pair up"),
        ([1.0], [1.0, 2.0], "do not pair up"),
        ([1.0, 101.0], [1.0, 2.0], "calibration row 2: score is 101; write 0-100"),
        ([1.0], [float("nan")], "calibration row 1: quality is nan; write 0-100"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(score: list[float], quality: list[float], said: str) -> None:
    with pytest.raises(BadVerdict, match=said):
        calibrate(np.array(score), np.array(quality))


def test_scores_and_qualities_go_from_0_to_100_and_stand_in_one_row() -> None:
    ends = np.array([0.0, 100.0])
    assert calibrate(ends, ends).quality.tolist() == [0.0, 100.0]
    with pytest.raises(BadVerdict, match="do not pair up"):
        calibrate(np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(BadVerdict, match=r"score is -0\.5"):
        calibrate(np.array([-0.5]), np.array([1.0]))


def test_no_bins_are_refused() -> None:
    with pytest.raises(BadVerdict, match="write 1 or more"):
        reliability(np.array([1.0]), np.array([1.0]), bins=0)


@pytest.mark.parametrize("bins", [1, 3, 10])
def test_bins_hold_about_as_many_pairs_each(bins: int) -> None:
    score = np.linspace(0.0, 100.0, 120)
    table = reliability(score, score, bins)
    assert [row.pairs for row in table] == [120 // bins] * bins
    assert [row.score for row in table] == pytest.approx([part.mean() for part in np.split(score, bins)])


def test_a_level_goes_to_the_bin_of_its_middle_pair() -> None:
    score = np.array([10.0] * 3 + [20.0] * 4 + [30.0])
    assert [row.pairs for row in reliability(score, score, 2)] == [3, 5]
    score = np.array([10.0] * 3 + [20.0] * 2 + [30.0] * 3)
    assert [row.pairs for row in reliability(score, score, 2)] == [3, 5]
    score = np.array([10.0] * 3 + [20.0] + [30.0] * 4)
    assert [row.pairs for row in reliability(score, score, 2)] == [4, 4]
    score = np.array([10.0] * 7 + [20.0])
    assert [row.pairs for row in reliability(score, score, 2)] == [7, 1]
