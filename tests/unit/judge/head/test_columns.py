"""What a head is given of texts and vectors, and what its training makes of rows, by hand."""

from dataclasses import replace
from math import log1p

import numpy as np
import pytest

from cascadia_judge.head.arrays import array_written, numbers_in
from cascadia_judge.head.features import SHAPE_NAMES, Seen, shape_of
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.model_selection import _candidates, _simplest
from cascadia_judge.head.projection import AXES, Basis, fit_basis
from cascadia_judge.head.training import Course, _other_answers, _spread, folds_of, measures
from cascadia_judge.scores.calibration import Calibration, smoothed


def seen(n: int = 40, size: int = 6, **changes: object) -> Seen:
    rng = np.random.default_rng(2)
    shapes = np.ones((n, len(SHAPE_NAMES)))
    made = Seen(
        rng.normal(size=(n, size)),
        rng.normal(size=(n, size)),
        shapes,
        2 * shapes,
        np.zeros((n, 5)),
        np.arange(n),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_texts_shape_is_its_lengths_and_shares_of_its_characters() -> None:
    """Ten characters in three words: a digit, two capitals, two marks, one line break."""
    assert shape_of("Ab C!\n7yz?") == (log1p(10), log1p(3), 0.1, 0.2, 0.2, 0.1)
    assert shape_of("") == (0.0,) * 6


def test_axes_are_those_of_most_variance_and_point_the_way_of_their_largest_entry() -> None:
    vectors = seen(200, 30).question * np.linspace(3.0, 0.1, 30) + 5.0
    axes = fit_basis(seen(200, 30, question=vectors), ("question",)).axes["question"].astype(np.float64)
    assert axes.shape == (30, AXES["question"])
    assert axes.T @ axes == pytest.approx(np.eye(AXES["question"]), abs=1e-5)
    kept = (vectors @ axes).var(axis=0)
    known = np.sort(np.linalg.eigvalsh(np.cov(vectors.T, bias=True)))[::-1]
    assert kept == pytest.approx(known[: AXES["question"]], rel=1e-3)
    assert (axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] > 0).all()


def test_there_are_no_more_axes_than_rows_can_tell() -> None:
    flat = np.zeros((40, 6))
    flat[:, 2] = np.arange(40)
    axes = fit_basis(seen(question=flat), ("question",)).axes["question"]
    assert axes.T.tolist() == [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]


def test_columns_have_names_and_stand_as_these_say() -> None:
    some = seen(5, certainty=np.full((5, 5), 7.0))
    axes = {"question": np.eye(6, 2), "answer": np.eye(6, 3), "pair": np.eye(6, 1)}
    basis = Basis(("question", "answer", "certainty"), {k: v.astype(np.float32) for k, v in axes.items()})
    columns = dict(zip(basis.names, basis.columns(some).T, strict=True))
    assert columns["question axis 1"].tolist() == some.question[:, 1].tolist()
    assert columns["answer axis 2"].tolist() == some.answer[:, 2].tolist()
    assert columns["pair axis 0"] == pytest.approx(some.question[:, 0] * some.answer[:, 0])
    assert columns["cosine"] == pytest.approx((some.question * some.answer).sum(axis=1))
    assert set(columns["question digits"]) == {1.0}
    assert set(columns["answer digits"]) == {2.0}
    assert set(columns["mean margin"]) == {7.0}


@pytest.mark.parametrize(("kind", "values"), [("f4", [[0.5, -2.0]]), ("f8", [0.1]), ("i2", [[3], [-300]])])
def test_arrays_come_back_from_json_as_they_were(kind: str, values: list[object]) -> None:
    found = numbers_in(array_written(np.array(values), kind))
    assert found.tolist() == values
    assert found.dtype == (np.int64 if kind == "i2" else np.float64)


def test_what_is_no_number_is_not_read() -> None:
    with pytest.raises(ValueError, match="not a number"):
        numbers_in(array_written(np.array([1.0, np.nan]), "f8"))


def test_a_line_takes_its_mean_for_what_is_unknown() -> None:
    line = Line(np.array([2.0, 3.0]), 1.0, np.array([10.0, 20.0]))
    assert line(np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan]])).tolist() == [9.0, 27.0, 63.0]


def test_a_row_goes_right_above_a_cut_and_left_at_it_or_where_nothing_is_known() -> None:
    """Two trees of two cuts each; the leaves of both are added."""
    trees = Trees(
        np.array([[0, 1, 1], [1, 0, 0]]),
        np.array([[5.0, 1.0, 2.0], [0.0, 4.0, 6.0]]),
        np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]),
        bias=0.5,
    )
    rows = np.array([[5.0, 1.0], [5.1, 2.0], [6.1, 2.1], [np.nan, np.nan], [4.0, 0.0]])
    assert trees(rows).tolist() == [31.5, 33.5, 44.5, 11.5, 11.5]


def test_questions_are_dealt_to_folds_of_as_many_and_rows_go_with_theirs() -> None:
    questions = [f"q{i // 3}" for i in range(33)]
    folds = folds_of(questions, 5, seed=1)
    assert sorted(np.bincount(folds[::3]).tolist()) == [2, 2, 2, 2, 3]
    assert (folds.reshape(11, 3) == folds[::3, None]).all()
    assert folds_of(questions, 5, seed=2).tolist() != folds.tolist()


def test_an_answer_to_another_question_is_not_the_questions_own() -> None:
    """Of six questions the last two are the same."""
    questions = np.eye(6)[[0, 1, 2, 3, 4, 4]]
    found = _other_answers(seen(6, 6, question=questions, answer=np.eye(6)), 400, np.random.default_rng(0))
    assert 280 < len(found) < 340
    own = questions[found.answer.argmax(axis=1)]
    assert (found.question * own).sum() == 0.0
    assert len(np.unique(np.hstack([found.question, found.answer]), axis=0)) == 24
    assert set(found.answer_shape.ravel()) == {2.0}
    assert set(found.question_shape.ravel()) == {1.0}


def test_spread_is_of_quality_about_its_calibration_in_tenths_of_the_rows() -> None:
    raw = np.arange(100.0)[::-1]
    off = np.where(np.arange(100) % 2, 1.0, -1.0) * (1 + raw // 10)
    at, spread = _spread(raw, 50.0 + off, Calibration(np.array([0.0]), np.array([50.0])))
    assert at.tolist() == [4.5 + 10 * k for k in range(10)]
    assert spread.tolist() == pytest.approx([1.0 + k for k in range(10)])
    few, _ = _spread(raw[:3], 50.0 + off[:3], Calibration(np.array([0.0]), np.array([50.0])))
    assert len(few) == 3


def test_answers_worth_half_or_more_are_right() -> None:
    found = measures(np.array([20.0, 40.0, 60.0]), np.array([0.0, 50.0, 49.0]))
    assert (found["rows"], found["mean_quality"], found["auc"]) == (3, 33.0, 0.5)
    assert found["correlation"] == pytest.approx(np.corrcoef([20, 40, 60], [0, 50, 49])[0, 1])
    alike = measures(np.full(3, 50.0), np.array([10.0, 20.0, 30.0]))
    assert (alike["auc"], alike["auc_standard_error"], alike["correlation"]) == (None, None, 0.0)


def test_heads_are_made_from_little_to_much_of_what_is_known() -> None:
    unknown = np.full((40, 5), np.nan)
    mute = np.zeros((40, 6))
    q, a, c = "question", "answer", "certainty"
    assert _candidates(seen(), True, False) == [[(q,)], [(q, a)], [(q, c), (q, a, c)]]
    assert _candidates(seen(), True, True) == [[(q,)], [(q, a)], [(q, a, c)]]
    assert _candidates(seen(certainty=unknown), True, False) == [[(q,)], [(q, a)]]
    assert _candidates(seen(), False, False) == [[(q,)]]
    assert _candidates(seen(question_shape=mute), True, False) == [[(a,)], [(c,), (a, c)]]


@pytest.mark.parametrize(("after", "later"), [(0.80, 0), (0.82, 0), (0.83, 1), (None, 1)])
def test_the_simplest_head_stays_unless_a_later_one_is_surely_better(after: float | None, later: int) -> None:
    class Measured:
        def __init__(self, auc: float | None) -> None:
            self.measured = {"auc": auc, "auc_standard_error": 0.025}

    found = [(Measured(0.8), "first"), (Measured(after), "second")]
    assert _simplest(found) is found[later]  # type: ignore[arg-type, comparison-overlap]


def test_a_course_is_five_folds_without_decoys() -> None:
    assert (Course().folds, Course().decoys, Course().reads) == (5, 0.0, False)


def test_flat_pieces_of_the_fit_are_drawn_to_their_middle() -> None:
    fit = smoothed(np.array([10.0, 20.0, 30.0, 30.0, 40.0]), np.array([10.0, 50.0, 30.0, 41.0, 80.0]))
    assert fit.score.tolist() == pytest.approx([10.0, 80 / 3, 40.0])
    assert fit.quality.tolist() == pytest.approx([10.0, 121 / 3, 80.0])
