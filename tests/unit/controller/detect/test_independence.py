"""Load and difficulty: what has nothing in common is told apart from what has, though both change slowly."""

import numpy as np
import pytest
from scipy.stats import rankdata

from cascadia.controller.detect.independence import FEWEST, Independence, _ranks, independence


def a_day(seed: int, together: float) -> tuple[np.ndarray, np.ndarray]:
    """Gears and scores of 300 looks; difficulty and load wander, and difficulty goes `together` points with a gear."""
    rng = np.random.default_rng(seed)
    load, topic = (_wandering(rng, 300) for _ in range(2))
    gear = np.digitize(load, [0.2, 0.8])
    return gear, np.clip(70 + 6 * topic + rng.normal(0, 8, 300) - together * gear, 0, 100)


def _wandering(rng: np.random.Generator, n: int) -> np.ndarray:
    found, at = np.empty(n), rng.normal()
    for i in range(n):
        at = 0.95 * at + 0.31 * rng.normal()
        found[i] = at
    return found


def test_what_wanders_apart_is_seldom_taken_for_dependent() -> None:
    """Where ranks of independent looks would say so three times in ten."""
    found = [independence(*a_day(seed, 0.0)) for seed in range(200)]
    p = np.array([each.p for each in found if each is not None])
    assert len(p) > 150
    assert (p < 0.05).mean() <= 0.08
    assert (p < 0.01).mean() <= 0.03


def test_harder_questions_under_load_are_found() -> None:
    found = [independence(*a_day(seed, 8.0)) for seed in range(60)]
    known = [each for each in found if each is not None]
    assert np.mean([each.p < 0.05 for each in known]) > 0.7
    assert np.mean([each.points for each in known]) == pytest.approx(12.0, abs=2.0)


def test_it_says_what_it_found() -> None:
    assert str(Independence(212, 3, 0.43, 0.5)) == (
        "load and difficulty look independent: p = 0.43, 212 shadow evaluations in 3 gears"
    )
    assert "questions are harder in light gears, by 4.1 points of score: p = 0.002" in str(
        Independence(300, 2, 0.002, 4.1)
    )


def test_too_few_looks_tell_nothing() -> None:
    gear, score = a_day(1, 0.0)
    assert independence(gear[: FEWEST - 1], score[: FEWEST - 1]) is None
    assert independence(np.zeros(300, int), score) is None


def test_scores_that_tie_share_the_mean_of_their_ranks() -> None:
    score = np.array([30.0, 10.0, 30.0, 20.0, 30.0, 10.0, 5.0])
    assert _ranks(score).tolist() == rankdata(score).tolist()
