"""Whether a cascade pays, by the formula, against cases with known answers and against drawn cascades."""

import numpy as np
import pytest

from cascadia.planner.baselines.payoff import Pair, least_auc, margin
from cascadia_judge.scores.agreement import agreement


@pytest.mark.parametrize("right", [0.3, 0.5, 0.8])
def test_a_gate_that_knows_pays_where_the_small_model_is_right_more_often_than_it_is_dear(
    right: float,
) -> None:
    assert least_auc(Pair(right, 1.0, 0.0, right - 0.03)) is not None
    assert least_auc(Pair(right, 1.0, 0.0, right + 0.01)) is None


def test_a_gate_that_guesses_gains_nothing_and_a_free_one_that_knows_gains_all_but_the_coins_share() -> None:
    pair = Pair(0.6, 1.0, 0.0, 0.1)
    assert margin(pair, 0.5) <= 0
    # Escalates the 40 % that are wrong: gains 0.4 where the coin for 0.4 gets 0.4 / 0.9 of the lead of 0.4.
    assert margin(pair, 0.99999) == pytest.approx(0.4 - 0.4 * 0.4 / 0.9, abs=0.01)


def test_dearer_small_models_dearer_judges_and_worse_ones_need_better_gates() -> None:
    needed = [least_auc(Pair(0.6, 0.9, 0.05, ratio, 0.02)) for ratio in (0.05, 0.1, 0.2, 0.3, 0.4)]
    assert all(a is not None for a in needed)
    assert needed == sorted(needed)  # type: ignore[type-var]
    assert needed[0] < least_auc(Pair(0.6, 0.9, 0.05, 0.05, 0.1))  # type: ignore[operator]
    assert least_auc(Pair(0.6, 0.0, 0.2, 0.1)) is None


@pytest.mark.parametrize(("right", "ratio", "shift"), [(0.5, 0.15, 1.5), (0.7, 0.3, 1.0), (0.4, 0.05, 0.6)])
def test_drawn_cascades_gain_what_the_formula_says(right: float, ratio: float, shift: float) -> None:
    """Scores of right answers are `shift` deviations higher; the best threshold of many questions is looked for."""
    rng = np.random.default_rng(1)
    n, gain, loss, judge = 200_000, 0.8, 0.1, 0.02
    small = rng.random(n) < right
    large = np.where(small, rng.random(n) >= loss, rng.random(n) < gain)
    score = rng.standard_normal(n) + shift * small
    found = agreement(score, small)
    assert found is not None
    best = -1.0
    for at in np.quantile(score, np.linspace(0.01, 0.99, 99)):
        passed_on = score < at
        cost = ratio + judge + passed_on.mean()
        share = (cost - ratio) / (1 - ratio)
        if passed_on.mean() < 1:
            coin = (1 - share) * small.mean() + share * large.mean()
            best = max(best, np.where(passed_on, large, small).mean() - coin)
    assert margin(Pair(right, gain, loss, ratio, judge), found.auc) == pytest.approx(best, abs=0.006)
