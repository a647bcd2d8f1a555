"""The logistic regression is at its optimum; trees find what a line cannot; the smoothed fit stays isotonic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_judge.head.head import raw_score
from cascadia_judge.head.learners import Growth, boost, fit_line
from cascadia_judge.scores.calibration import smoothed


def some(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).normal(size=(rows, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    return x, np.ones(rows)


def test_the_line_is_where_no_small_step_lowers_the_loss() -> None:
    x, weight = some()
    y = 1 / (1 + np.exp(-(2 * x[:, 0] - 0.1 * x[:, 1])))
    z = (x - x.mean(axis=0)) / x.std(axis=0)

    def loss(w: np.ndarray, bias: float) -> float:
        f = z @ w + bias
        return float(np.mean(np.logaddexp(0, f) - y * f) + 0.05 * w @ w)

    line = fit_line(x, y, weight, ridge=0.1)
    w, bias = line.weight * x.std(axis=0), line.bias + line.weight @ x.mean(axis=0)
    least = loss(w, bias)
    for i in range(3):
        for step in (-1e-3, 1e-3):
            assert loss(w + step * np.eye(3)[i], bias) > least
    assert loss(w, bias + 1e-3) > least
    assert line(x) == pytest.approx(z @ w + bias)


def test_an_unknown_value_counts_as_the_mean_and_a_constant_column_for_nothing() -> None:
    x, weight = some()
    x[:, 2] = 7.0
    line = fit_line(x, (x[:, 0] > 0).astype(float), weight, ridge=0.1)
    unknown = x[:1].copy()
    unknown[0, 1] = np.nan
    mean = x[:1].copy()
    mean[0, 1] = x[:, 1].mean()
    assert line(unknown) == pytest.approx(line(mean))
    assert line.weight[2] == 0.0


def test_trees_learn_an_exclusive_or_that_no_line_can() -> None:
    x, weight = some(2000)
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 5)).astype(float)
    trees = boost(x, y, weight, Growth(columns=1.0), 0)
    fresh = np.random.default_rng(2).normal(size=(500, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    truth = (fresh[:, 0] > 0) ^ (fresh[:, 1] > 5)
    assert ((trees(fresh) > 0) == truth).mean() > 0.95
    assert ((fit_line(x, y, weight, 0.1)(fresh) > 0) == truth).mean() < 0.65


def test_trees_tell_the_unknown_from_every_known_value() -> None:
    x, weight = some(1000)
    x[::2, 1] = np.nan
    y = np.isnan(x[:, 1]).astype(float)
    trees = boost(x, y, weight, Growth(trees=50, columns=1.0), 0)
    assert ((trees(x) > 0) == (y > 0)).all()


def test_the_same_seed_grows_the_same_trees() -> None:
    x, weight = some()
    y = (x[:, 0] > 0).astype(float)
    one, two = (boost(x, y, weight, Growth(trees=20), 3) for _ in range(2))
    assert (one(x) == two(x)).all()


def test_trees_as_numbers_say_what_the_library_says() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    x, weight = some()
    y = (x[:, 0] + x[:, 1] / 10 > 0.5).astype(float)
    growth = Growth(trees=40)
    trees = boost(x, y, weight, growth, seed=5)
    library = GradientBoostingClassifier(
        n_estimators=40,
        max_depth=3,
        learning_rate=0.05,
        min_samples_leaf=10,
        max_features=0.3,
        subsample=0.7,
        random_state=5,
    )
    # Rows that are right stand before those that are wrong.
    order = np.argsort(y < 0.5, kind="stable")
    said = library.fit(x[order], y[order]).decision_function(x)
    assert trees(x) == pytest.approx(said, abs=1e-9)


def test_a_target_between_right_and_wrong_is_as_many_of_both() -> None:
    x, weight = some()
    share = np.where(x[:, 0] > 0, 0.75, 0.25)
    hard = np.concatenate([np.ones(400), x[:, 0] > 0, x[:, 0] > 0, np.zeros(400)])
    soft = fit_line(x, share, weight, ridge=0.1)
    whole = fit_line(np.tile(x, (4, 1)), hard, np.ones(1600), ridge=0.1)
    assert soft(x) == pytest.approx(whole(x), abs=1e-4)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_where_all_are_right_or_all_wrong_both_learners_say_so(target: float) -> None:
    x, weight = some(100)
    y = np.full(100, target)
    sign = 1 if target else -1
    assert (sign * fit_line(x, y, weight, 0.1)(x) > 3).all()
    assert (sign * boost(x, y, weight, Growth(trees=20), 0)(x) > 3).all()


@pytest.mark.parametrize(("target", "odds"), [(0.0, 0.001 / 0.999), (1.0, 0.999 / 0.001)])
def test_where_all_are_right_or_all_wrong_one_in_a_thousand_is_taken_for_the_other(
    target: float, odds: float
) -> None:
    x, weight = some()
    line = fit_line(x, np.full(len(x), target), weight, ridge=0.1)
    assert np.exp(line(x)) == pytest.approx(np.full(len(x), odds), rel=0.01)


def test_trees_without_anything_to_tell_apart_say_the_mean() -> None:
    x = np.ones((60, 2))
    y = np.repeat([0.0, 1.0, 1.0], 20)
    trees = boost(x, y, np.ones(60), Growth(rows=1.0), 0)
    assert 1 / (1 + np.exp(-trees(x))) == pytest.approx(np.full(60, 2 / 3), abs=1e-6)


pairs = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=60)


@given(pairs)
def test_the_smoothed_fit_never_descends_and_keeps_the_mean_within_the_data(
    found: list[tuple[int, int]],
) -> None:
    score, quality = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    fit = smoothed(score, quality)
    said = fit(np.linspace(0, 100, 201))
    assert (np.diff(said) >= -1e-9).all()
    assert quality.min() - 1e-9 <= said.min()
    assert said.max() <= quality.max() + 1e-9
    assert (np.diff(fit.score) > 0).all()
    assert (np.diff(fit.quality) > 0).all()


@pytest.mark.parametrize(
    ("line", "trees", "score"),
    [(0.0, 0.0, 50.0), (2.0, 0.0, 73.1059), (1.0, -3.0, 26.8941), (99.0, 99.0, 100.0)],
)
def test_a_score_is_the_chance_by_the_mean_log_odds_of_both_learners(
    line: float, trees: float, score: float
) -> None:
    found = raw_score(lambda x: x + line, lambda x: x + trees, np.zeros(1))  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx([score], abs=1e-4)
