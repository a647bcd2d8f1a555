"""Heads made by hand: which of them judges what, what their file takes and refuses, and what training makes of rows
that need no encoder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia_judge import foresight
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoded
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.arrays import array_written
from cascadia_judge.head.features import Group, Seen
from cascadia_judge.head.file import BYTES_MAX, dump, load
from cascadia_judge.head.head import Head, raw_score
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.learners import Growth
from cascadia_judge.head.model_selection import _candidates, see, teach
from cascadia_judge.head.projection import Basis
from cascadia_judge.head.rows import Row
from cascadia_judge.head.training import Course, cross, fit, folds_of, train
from cascadia_judge.scores.calibration import Calibration, smoothed
from cascadia_judge.scores.certainty import Certainty
from tests.unit.judge.head.test_columns import seen

SURE = Certainty.of([-0.05], [0.95])
SIZE = 4


class Lengths:
    """Each vector is the length of its text, over and over; what it was asked is in `asked`."""

    size = SIZE

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encoded(self, texts: Sequence[str], tokens_max: int = 254) -> Encoded:
        self.asked += texts
        lengths = np.array([len(text) for text in texts])
        return Encoded(np.repeat(lengths[:, None], SIZE, axis=1).astype(np.float32), lengths)


def head(groups: Sequence[Group], stage: str = "", score: float = 50.0, spread: float = 10.0) -> Head:
    """Of one axis a block; what it says is `score`, whatever it sees."""
    axes = {"question": ("question",), "answer": ("answer", "pair")}
    basis = Basis(
        tuple(groups), {name: np.ones((SIZE, 1), np.float32) for g in groups for name in axes.get(g, ())}
    )
    columns = len(basis.names)
    return Head(
        stage,
        basis,
        Line(np.zeros(columns), 0.0, np.zeros(columns)),
        trees=Trees(np.zeros((1, 1), np.int64), np.zeros((1, 1)), np.zeros((1, 2)), 0.0),
        calibration=Calibration(np.array([0.0]), np.array([score])),
        spread_at=np.array([0.0, 100.0]),
        spread=np.array([spread, spread]),
        measured={"rows": 7},
    )


Q, A, C = "question", "answer", "certainty"
HEADS = {
    "foresight": head((Q,), score=10.0),
    "foresight of large": head((Q,), "large", score=20.0),
    "plain": head((Q, A), score=30.0),
    "plain of large": head((Q, A), "large", score=40.0),
    "unread": head((Q, C), score=50.0),
    "read": head((Q, A, C), score=60.0),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("left_out", "case", "chosen"),
    [
        ((), Case("q"), "foresight"),
        ((), Case("q", None, SURE), "foresight"),
        ((), Case("q", stage="large"), "foresight of large"),
        ((), Case("q", stage="small"), "foresight"),
        ((), Case("q", "a"), "plain"),
        ((), Case("q", "a", stage="large"), "plain of large"),
        ((), Case("q", "a", SURE), "read"),
        (("read",), Case("q", "a", SURE), "unread"),
        ((), Case("q", "a", SURE, "large"), "plain of large"),
        (("read", "unread"), Case("q", "a", SURE), "plain"),
    ],
)
def test_the_stages_own_head_comes_first_then_one_that_knows_more(
    left_out: Sequence[str], case: Case, chosen: str, turned: bool
) -> None:
    heads = [found for name, found in HEADS.items() if name not in left_out]
    judge = EmbeddingJudge(Lengths(), tuple(heads[::-1] if turned else heads), {})
    assert judge.head_for(case) is HEADS[chosen]


@pytest.mark.parametrize(
    ("names", "case", "lacking"),
    [
        (("plain",), Case("q"), "an answer"),
        (("read", "foresight"), Case("q", "a"), "log-probabilities"),
        (("plain of large",), Case("q", "a", SURE), "log-probabilities"),
    ],
)
def test_where_no_head_can_judge_it_says_what_is_lacking(
    names: Sequence[str], case: Case, lacking: str
) -> None:
    judge = EmbeddingJudge(Lengths(), tuple(HEADS[name] for name in names), {})
    with pytest.raises(BadVerdict, match=f"without {lacking}"):
        judge.score(case.question, case.answer, case.certainty, case.stage)


def test_each_case_has_its_own_heads_verdict_and_only_what_is_looked_at_is_read() -> None:
    encoder = Lengths()
    judge = EmbeddingJudge(encoder, tuple(HEADS.values()), {})
    cases = [Case("qqq", "aa", stage="large"), Case("q"), Case("qq", "aaaa", SURE), Case("qqq", "  ", SURE)]
    verdicts = judge.scores(cases)
    assert [v.score for v in verdicts] == [40.0, 10.0, 60.0, 0.0]
    assert [v.certainty for v in verdicts] == pytest.approx([0.8] * 4)
    assert [v.tokens for v in verdicts[:3]] == [5, 1, 6]
    unread = EmbeddingJudge(encoder, (HEADS["unread"],), {})
    encoder.asked.clear()
    assert unread.score("qq", "never read", SURE)[::2] == (50.0, 2)
    assert "never read" not in encoder.asked


def test_a_judge_tells_what_it_needs_and_whether_it_foresees() -> None:
    made = {name: EmbeddingJudge(Lengths(), (one,), {}) for name, one in HEADS.items()}
    assert {name for name, judge in made.items() if judge.foresees} == {"foresight"}
    assert {name for name, judge in made.items() if judge.wants_certainty} == {"unread", "read"}


def test_certainty_is_one_less_the_spread_and_never_below_nothing() -> None:
    told = [head((Q,), spread=spread).score(seen(1, SIZE)).certainty[0] for spread in (0.0, 25.0, 50.0, 60.0)]
    assert told == [1.0, 0.5, 0.0, 0.0]
    between = replace(head((Q,)), spread=np.array([0.0, 50.0]))
    assert between.score(seen(1, SIZE)).certainty[0] == pytest.approx(0.5)


def test_a_raw_score_is_the_mean_of_both_learners_log_odds() -> None:
    line = Line(np.array([1.0]), 0.0, np.array([0.0]))
    for odds, leaf in ((3.0, 1.0), (-3.0, 0.0), (500.0, 500.0), (-500.0, -500.0)):
        trees = Trees(np.zeros((1, 1), np.int64), np.zeros((1, 1)), np.full((1, 2), leaf), 0.0)
        mean = max(-40.0, min(40.0, (odds + leaf) / 2))
        assert raw_score(line, trees, np.array([[odds]])) == pytest.approx(100 / (1 + exp(-mean)))


def test_a_file_gives_back_what_was_written_and_what_stands_behind() -> None:
    heads = (HEADS["read"], HEADS["plain of large"])
    text = dump(heads, {"encoder": "tiny"}, {"more": [1]})
    assert list(json.loads(text)) == ["kind", "version", "about", "heads", "more"]
    found, about = load(text, "here")
    assert about == {"encoder": "tiny"}
    assert dump(found, about, {"more": [1]}) == text
    assert [(one.stage, one.groups, one.measured) for one in found] == [
        ("", (Q, A, C), {"rows": 7}),
        ("large", (Q, A), {"rows": 7}),
    ]


def reshaped(part: str, name: str, *shape: int, kind: str = "f8") -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["heads"][0][part][name] = array_written(np.zeros(shape), kind)

    return change


def columns(value: int) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["heads"][0]["trees"]["column"]["base64"] = {0: "AAA=", 6: "BgA=", 7: "BwA=", -1: "//8="}[
            value
        ]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: None, None),
        (columns(0), None),
        (columns(6), None),
        (columns(7), "do not fit the columns"),
        (columns(-1), "do not fit the columns"),
        (lambda d: d.update(kind="other"), "is no embedding judge"),
        (lambda d: d.update(version=2), "has version 2"),
        (lambda d: d.update(version=0), "has version 0"),
        (lambda d: d.update(heads=[]), "has no head"),
        (lambda d: d.pop("about"), "is damaged"),
        (lambda d: d["heads"][0].update(groups=["answer", "question"]), "unknown groups"),
        (lambda d: d["heads"][0].update(groups=["shoe size"]), "unknown groups"),
        (reshaped("line", "weight", 6), "line does not fit"),
        (reshaped("line", "weight", 8), "line does not fit"),
        (reshaped("line", "mean", 6), "line does not fit"),
        (reshaped("line", "mean", 8), "line does not fit"),
        (reshaped("trees", "leaf", 1, 3), "trees do not fit together"),
        (reshaped("trees", "leaf", 2, 2), "trees do not fit together"),
        (reshaped("trees", "leaf", 2), "is damaged"),
        (reshaped("trees", "cut", 1, 2), "trees do not fit together"),
        (reshaped("trees", "column", 2, 1, kind="i2"), "trees do not fit together"),
        (lambda d: d["heads"][0].update(stage=None, measured="x" * 900), "is damaged"),
    ],
)
def test_a_file_whose_numbers_do_not_fit_is_refused(
    change: Callable[[dict[str, Any]], object], said: str | None
) -> None:
    """A head that reads the question has one axis and six of its shape: seven columns."""
    document = json.loads(dump((HEADS["foresight"],), {}))
    change(document)
    if said is None:
        assert len(load(json.dumps(document), "file")[0]) == 1
        return
    with pytest.raises(BadVerdict, match=said) as caught:
        load(json.dumps(document), "file")
    assert len(caught.value.what) <= 200


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]", '{"kind": "cascadia-embedding-judge"}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadVerdict, match=r"is no JSON|is no embedding judge|has version None"):
        load(text, "file")


def test_a_long_reason_is_cut() -> None:
    document = json.loads(dump((HEADS["foresight"],), {}))
    document["heads"][0]["line"]["weight"]["type"] = "x" * 500
    with pytest.raises(BadVerdict, match="is damaged") as caught:
        load(json.dumps(document), "file")
    assert len(caught.value.what) == 200


def test_a_judge_is_read_with_the_encoder_that_it_was_trained_on(tmp_path: Path) -> None:
    file = tmp_path / "judge.json"
    with pytest.raises(BadVerdict, match="is no file of a judge"):
        EmbeddingJudge.read(file, Lengths())
    file.write_text(dump((HEADS["plain"],), {"encoder": "lengths"}))
    assert EmbeddingJudge.read(file, Lengths()).about == {"encoder": "lengths"}
    wider = Lengths()
    wider.size = 5
    with pytest.raises(BadVerdict, match="another encoder; use lengths"):
        EmbeddingJudge.read(file, wider)
    with file.open("r+b") as stream:
        stream.truncate(BYTES_MAX + 1)
    with pytest.raises(BadVerdict, match="is no file of a judge"):
        EmbeddingJudge.read(file, Lengths())


FORESEEN = foresight.Foreseen(("p", "q", "r"), ("small", "large"), np.array([[0.0, 50, 100], [1, 2, 3]]))


def test_what_was_foreseen_is_read_as_it_was_written() -> None:
    back = foresight.read(json.dumps({foresight.KEY: foresight.written(FORESEEN)}), "file")
    assert (back.prompt_ids, back.stages) == (FORESEEN.prompt_ids, FORESEEN.stages)
    assert back.values.tolist() == FORESEEN.values.tolist()


@pytest.mark.parametrize("value", [-0.5, 100.5, np.nan, np.inf])
def test_what_was_foreseen_is_quality_of_a_hundred(value: float) -> None:
    values = FORESEEN.values.copy()
    values[1, 1] = value
    text = json.dumps({foresight.KEY: foresight.written(FORESEEN._replace(values=values))})
    with pytest.raises(BadVerdict, match="not within 0-100"):
        foresight.read(text, "file")


def told(n: int = 60) -> tuple[Seen, np.ndarray, list[str]]:
    """Answers whose first number says what they are worth; two of each question."""
    some = seen(n, SIZE)
    return some, np.where(some.answer[:, 0] > 0, 100.0, 20.0), [f"q{i // 2}" for i in range(n)]


def test_there_are_questions_where_one_has_a_length() -> None:
    some = seen(4, SIZE)
    shape = np.zeros_like(some.question_shape)
    assert _candidates(replace(some, question_shape=shape), answered=False, reads=False) == []
    shape[-1, 0] = 1.0
    assert _candidates(replace(some, question_shape=shape), answered=False, reads=False) == [[(Q,)]]


SHORT = Course(folds=2, growth=Growth(trees=2))


def test_a_head_learns_of_quality_as_a_share_of_a_hundred() -> None:
    some, quality, _ = told(400)
    fitted = fit(some, quality, (Q, A), SHORT)
    raw = raw_score(fitted.line, fitted.trees, fitted.basis.columns(some))
    assert raw.mean() == pytest.approx(quality.mean(), abs=8)
    assert raw[quality > 50].mean() > raw[quality < 50].mean() + 20


def test_a_row_has_no_part_in_its_own_score() -> None:
    some, quality, questions = told()
    other = quality.copy()
    other[0] = 120.0 - other[0]
    one, two = (cross(some, q, questions, (Q, A), SHORT) for q in (quality, other))
    fold = folds_of(questions, 2, 0)
    assert (one.raw == two.raw).tolist() == (fold == fold[0]).tolist()
    for k in range(2):
        others = smoothed(one.raw[fold != k], quality[fold != k])
        assert one.quality[fold == k].tolist() == others(one.raw[fold == k]).tolist()
    assert one.quality.min() >= 0
    assert one.quality.max() <= 100


@pytest.mark.parametrize(
    ("rows", "questions", "enough"), [(50, 4, True), (49, 20, False), (50, 3, False), (60, 30, True)]
)
def test_fifty_rows_of_twice_as_many_questions_as_folds_are_enough(
    rows: int, questions: int, enough: bool
) -> None:
    some, quality, _ = told(rows)
    names = [f"q{i % questions}" for i in range(rows)]
    if enough:
        made, crossed = train("s", some, quality, names, (Q, A), SHORT)
        assert (made.stage, made.groups, made.measured["rows"]) == ("s", (Q, A), rows)
        assert len(crossed.quality) == rows
    else:
        with pytest.raises(BadVerdict, match=f"{rows} rows of {questions} questions are too few"):
            train("s", some, quality, names, (Q, A), SHORT)


def test_answers_that_are_all_worth_the_same_teach_nothing() -> None:
    some, _, questions = told()
    with pytest.raises(BadVerdict, match="all have quality 40"):
        train("", some, np.full(60, 40.0), questions, (Q, A), SHORT)


@pytest.mark.parametrize(("own_from", "own"), [(50, {"", "large", "small"}), (51, {"", "large"})])
def test_a_stage_with_rows_enough_has_heads_of_its_own(own_from: int, own: set[str]) -> None:
    some, quality, questions = told(130)
    some = replace(some, certainty=np.full((130, 5), np.nan))
    stages = ["small"] * 50 + ["large"] * 80
    rows = [
        Row(question, "?", stage, "a", float(worth))
        for question, stage, worth in zip(questions, stages, quality, strict=True)
    ]
    steps: list[float] = []
    taught = teach(rows, some, SHORT, steps.append, own_from)
    assert {one.stage for one in taught.heads} == own
    assert {one.groups for one in taught.heads} == {(Q,), (Q, A)}
    assert steps == pytest.approx([(k + 1) / len(own) for k in range(len(own))])
    assert np.isfinite(taught.scores).all()
    assert np.isfinite(taught.foreseen).all()
    rows = [replace(row, stage="small") for row in rows]
    alone = teach(rows, some, SHORT, steps.append, own_from)
    assert {one.stage for one in alone.heads} == {""}


def test_rows_are_looked_at_a_few_at_a_time_and_all_of_them() -> None:
    encoder, steps = Lengths(), list[float]()
    rows = [Row("p", "q" * (1 + i), "", "a" * (1 + i), 50.0) for i in range(70)]
    found = see(encoder, rows, steps.append)
    alone = [see(encoder, [row], lambda _: None) for row in rows]
    assert found.answer.tolist() == [one.answer[0].tolist() for one in alone]
    assert found.tokens.tolist() == [int(one.tokens[0]) for one in alone]
    assert steps == pytest.approx([32 / 70, 64 / 70, 1.0])


def test_rows_without_question_and_answer_teach_nothing() -> None:
    some, quality, questions = told()
    mute = replace(some, question_shape=0 * some.question_shape, answer_shape=0 * some.answer_shape)
    rows = [Row(q, "", "", "", float(worth)) for q, worth in zip(questions, quality, strict=True)]
    with pytest.raises(BadVerdict, match="neither questions nor answers"):
        teach(rows, mute, SHORT, lambda _: None)
