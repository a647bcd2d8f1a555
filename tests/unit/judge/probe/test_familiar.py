"""How far a question strays from those of training, and what a share is at most, by hand."""

import numpy as np
import pytest
from scipy.stats import binom

from cascadia_judge.head.learned import Line
from cascadia_judge.probe.familiar import Axes, Familiar, fit_axes, fit_familiar
from cascadia_judge.probe.probe import raw
from cascadia_judge.probe.training import CONFIDENCE, _upper

AXES = Axes(np.array([1.0, 0.0, 0.0]), np.array([2.0, 1.0, 1.0]), np.array([[1.0], [0.0], [0.0]]))


def test_what_strays_is_what_the_axes_leave_over() -> None:
    questions = np.array([[9.0, 3.0, 4.0], [1.0, 0.0, 0.0], [7.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    assert AXES.stray(questions).tolist() == [25.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(("cut", "known"), [(25.5, True), (25.0, True), (24.5, False)])
def test_a_question_is_known_up_to_the_cut(cut: float, known: bool) -> None:
    assert Familiar(AXES, cut, 0.01).knows(np.array([9.0, 3.0, 4.0])) is known


def test_a_quarter_of_the_axes_are_kept_of_standardised_states_the_widest_first() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(60, 8)) @ rng.normal(size=(8, 8)) + 5.0
    states = np.hstack([states, np.full((60, 1), 3.0)])
    axes = fit_axes(states)
    assert axes.directions.shape == (9, 2)
    widths = np.sort(np.linalg.eigvalsh(np.corrcoef(states[:, :8].T)))[::-1]
    assert axes.stray(states).mean() == pytest.approx(widths[2:].sum())
    assert axes.scale[8] == 0.0


def test_one_question_in_a_hundred_lies_beyond_the_cut() -> None:
    told = []

    def upper(count: int, of: int) -> float:
        told.append((count, of))
        return 0.5

    states = np.random.default_rng(0).normal(size=(401, 8))
    found = fit_familiar(states, np.arange(401.0), upper)
    assert (found.cut, told, found.unlike_rate) == (396.0, [(4, 401)], 0.5)


def test_a_probes_score_is_the_chance_by_its_log_odds() -> None:
    line = Line(np.array([1.0]), 0.0, np.array([0.0]))
    found = raw(line, np.array([[0.0], [1.0], [-1.0], [99.0]]))
    assert found.tolist() == pytest.approx([50.0, 73.1059, 26.8941, 100.0], abs=1e-4)


@pytest.mark.parametrize(("count", "of"), [(0, 50), (1, 50), (7, 20), (49, 50)])
def test_a_share_is_at_most_what_would_seldom_give_so_few(count: int, of: int) -> None:
    assert binom.cdf(count, of, _upper(count, of)) == pytest.approx(1 - CONFIDENCE)
    assert _upper(of, of) == 1.0
