"""A head that was taught worthless answers gives less for one that suits every question, and no less for a good one."""

import numpy as np

from cascadia_judge.head.features import SHAPE_NAMES, Seen
from cascadia_judge.head.learners import Growth
from cascadia_judge.head.training import Course, fit, raw_score
from cascadia_judge.injection.null_answers import NULLS
from tests.injection import texts

SIZE = 8
GROUPS = ("question", "answer")
GROWTH = Growth(trees=30)


def seen_of(question: np.ndarray, answer: np.ndarray) -> Seen:
    shape = np.ones((len(question), len(SHAPE_NAMES)))
    return Seen(
        question, answer, shape, shape, np.full((len(question), 5), np.nan), np.zeros(len(question), np.int64)
    )


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def test_what_suits_every_question_is_worth_less_once_it_was_taught() -> None:
    rng = np.random.default_rng(0)
    question = unit(rng.normal(size=(400, SIZE)))
    right = rng.random(400) < 0.5
    # A right answer is about its question; nulls are all alike, and like no row that was graded.
    about = unit(np.where(right[:, None], question, 0) + 0.5 * rng.normal(size=(400, SIZE)))
    rows, quality = seen_of(question, about), 100.0 * right
    one = unit(rng.normal(size=(1, SIZE)))
    nulls = seen_of(np.zeros((5, SIZE)), unit(one + 0.05 * rng.normal(size=(5, SIZE))))
    asked = seen_of(question[:100], np.repeat(one, 100, axis=0))

    def given(course: Course, to: Seen) -> float:
        fitted = fit(rows, quality, GROUPS, course)
        return float(raw_score(fitted.line, fitted.trees, fitted.basis.columns(to)).mean())

    untaught, taught = Course(growth=GROWTH), Course(decoys=0.5, nulls=nulls, growth=GROWTH)
    assert given(taught, asked) < given(untaught, asked) - 10
    good = rows.take(np.flatnonzero(right)[:100])
    bad = rows.take(np.flatnonzero(~right)[:100])
    assert given(taught, good) > given(taught, bad) + 20


def test_a_head_that_does_not_read_answers_is_taught_none() -> None:
    rng = np.random.default_rng(1)
    rows = seen_of(unit(rng.normal(size=(60, SIZE))), unit(rng.normal(size=(60, SIZE))))
    quality = 100.0 * (rng.random(60) < 0.5)
    nulls = rows.take(np.arange(5))
    columns = [
        raw_score(f.line, f.trees, f.basis.columns(rows))
        for f in (
            fit(rows, quality, ("question",), course)
            for course in (Course(growth=GROWTH), Course(decoys=1.0, nulls=nulls, growth=GROWTH))
        )
    ]
    assert np.array_equal(*columns)


def test_what_is_taught_is_not_what_the_suite_tries() -> None:
    def bare(text: str) -> str:
        return text.strip().rstrip(".").lower()

    tried = {bare(text) for text in (*texts.NULL, *texts.EMPTY, *texts.OBLIQUE, *texts.CLAIMS)}
    assert tried.isdisjoint(map(bare, NULLS))
    assert len(set(map(bare, NULLS))) == len(NULLS)
