"""A judge that was trained tells answers apart, knows how sure it is, and survives being written to a file."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.file import dump
from cascadia_judge.head.model_selection import Trained, see, teach
from cascadia_judge.head.training import Course, cross, folds_of, train
from cascadia_judge.scores.certainty import Certainty
from tests.unit.judge import tiny_encoder
from tests.unit.judge.boost_quickly import QUICK
from tests.unit.judge.graded import rows

pytestmark = pytest.mark.slow

SURE, UNSURE = Certainty.of([-0.05], [0.95]), Certainty.of([-2.5], [0.1])


def taught(encoder: Encoder, made: list, course: Course = QUICK) -> Trained:
    return teach(made, see(encoder, made, lambda share: None), course, lambda share: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder.write(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder.read(folder)


@pytest.fixture(scope="module")
def trained(encoder: Encoder) -> Trained:
    return taught(encoder, rows(400))


@pytest.fixture(scope="module")
def judge(encoder: Encoder, trained: Trained) -> EmbeddingJudge:
    return EmbeddingJudge(encoder, trained.heads, {})


def test_it_tells_right_from_wrong_on_questions_it_has_not_seen(judge: EmbeddingJudge) -> None:
    fresh = rows(200, seed=9)
    scores = [v.score for v in judge.scores([Case(r.question, r.answer, r.certainty) for r in fresh])]
    right = np.array([row.quality > 50 for row in fresh])
    assert np.mean(np.array(scores)[right]) > 75
    assert np.mean(np.array(scores)[~right]) < 50


def test_a_score_is_the_quality_to_be_expected(judge: EmbeddingJudge) -> None:
    fresh = rows(400, seed=10)
    scores = np.array(
        [v.score for v in judge.scores([Case(r.question, r.answer, r.certainty) for r in fresh])]
    )
    quality = np.array([row.quality for row in fresh])
    assert scores.mean() == pytest.approx(quality.mean(), abs=6)
    high = scores > 80
    assert quality[high].mean() == pytest.approx(scores[high].mean(), abs=8)


def test_it_uses_the_engines_certainty_where_it_has_it(judge: EmbeddingJudge) -> None:
    text = "no and four paris"
    sure, unsure, unknown = (judge.score("what is two ?", text, c).score for c in (SURE, UNSURE, None))
    assert unsure < unknown < sure


def test_its_own_certainty_is_higher_where_answers_alike_were_worth_the_same(judge: EmbeddingJudge) -> None:
    plain = judge.score("what is two ?", "cat cat no two the cat", SURE)
    split = judge.score("what is two ?", "no two the four", SURE)
    assert 0 <= split.certainty < plain.certainty <= 1


def test_an_empty_answer_is_worth_nothing(judge: EmbeddingJudge) -> None:
    for empty in ("", " \n", "\u200b", "\U000e0041"):
        assert judge.score("what is two ?", empty, SURE).score == 0


def test_verdicts_do_not_depend_on_what_else_is_judged(judge: EmbeddingJudge) -> None:
    cases = [
        Case("what is two ?", "cat"),
        Case("what is two ?", None),
        Case("four", "no no no", SURE),
        Case("four", "cat and paris", SURE),
    ]
    together, alone = judge.scores(cases), [judge.scores([case])[0] for case in cases]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_a_head_that_knows_the_certainty_comes_before_one_that_reads_the_text(encoder: Encoder) -> None:
    made = rows(200)
    seen, quality = see(encoder, made, lambda share: None), np.array([row.quality for row in made])
    names = [row.prompt_id for row in made]
    heads = [
        train("", seen, quality, names, groups, QUICK)[0]
        for groups in (("question",), ("question", "answer"), ("question", "certainty"))
    ]
    for order in (heads, heads[::-1]):
        judge = EmbeddingJudge(encoder, tuple(order), {})
        assert judge.head_for(Case("what", "cat", SURE)).groups == ("question", "certainty")
        assert judge.head_for(Case("what", "cat")).groups == ("question", "answer")
        assert judge.head_for(Case("what")).groups == ("question",)
        texts = ("cat", "no. Grade: 9", "x" * 100)
        assert len({judge.score("what", text, SURE).score for text in texts}) == 1


def test_the_file_gives_the_same_verdicts(judge: EmbeddingJudge, tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    path.write_text(dump(judge.heads, {"encoder": "tiny"}))
    again = EmbeddingJudge.read(path, judge.encoder)
    assert again.about == {"encoder": "tiny"}
    case = Case("what is two ?", "cat and no cat", SURE)
    assert again.scores([case])[0] == pytest.approx(judge.scores([case])[0], abs=1e-4)
    assert json.loads(path.read_text())["heads"][0]["measured"]["rows"] == 400
    assert EmbeddingJudge.read(path, judge.encoder).digest == again.digest
    path.write_text(dump(judge.heads, {"encoder": "trained anew"}))
    assert EmbeddingJudge.read(path, judge.encoder).digest != again.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(kind="other"), "no embedding judge"),
        (lambda d: d.update(version=2), "has version 2"),
        (lambda d: d.update(heads=[]), "no head"),
        (lambda d: d["heads"][0].pop("line"), "is damaged"),
        (lambda d: d["heads"][0]["line"]["weight"].update(shape=[1]), "is damaged"),
        (lambda d: d["heads"][0]["trees"]["column"].update(base64="////" * 2), "is damaged"),
        (lambda d: d["heads"][0].update(groups=["shoe size"]), "is damaged"),
    ],
)
def test_a_damaged_file_is_refused(judge: EmbeddingJudge, tmp_path: Path, change, said: str) -> None:
    document = json.loads(dump(judge.heads, {}))
    change(document)
    path = tmp_path / "judge.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BadVerdict, match=said):
        EmbeddingJudge.read(path, judge.encoder)


def test_a_judge_of_another_encoder_is_refused(trained: Trained, tmp_path: Path, encoder: Encoder) -> None:
    head = trained.heads[0]
    wider = {name: np.vstack([axes, axes]) for name, axes in head.basis.axes.items()}
    path = tmp_path / "judge.json"
    basis = type(head.basis)(head.basis.groups, wider)
    path.write_text(dump((replace(head, basis=basis),), {"encoder": "wide"}))
    with pytest.raises(BadVerdict, match="another encoder; use wide"):
        EmbeddingJudge.read(path, encoder)


def test_rows_without_certainty_make_a_judge_that_does_not_ask_for_it(encoder: Encoder) -> None:
    plain = EmbeddingJudge(encoder, taught(encoder, rows(150, certain=False)).heads, {})
    assert not plain.wants_certainty
    assert plain.score("what is two ?", "cat", SURE).score == plain.score("what is two ?", "cat").score


@pytest.mark.long
def test_a_stage_with_rows_enough_gets_heads_of_its_own(encoder: Encoder) -> None:
    made = rows(320, stage="small") + rows(320, seed=5, stage="large")[:60]
    heads = taught(encoder, made).heads
    assert {head.stage for head in heads} == {"", "small"}
    judge = EmbeddingJudge(encoder, heads, {})
    assert judge.head_for(Case("what", "cat", SURE, "small")).stage == "small"
    assert judge.head_for(Case("what", "cat", SURE, "large")).stage == ""


def test_a_row_has_no_part_in_its_own_raw_score(encoder: Encoder) -> None:
    made = rows(120, certain=False)
    seen = see(encoder, made, lambda share: None)
    quality = np.array([row.quality for row in made])
    other = np.concatenate([[100 - quality[0]], quality[1:]])
    names = [row.prompt_id for row in made]
    one, two = (cross(seen, q, names, ("question", "answer"), QUICK).raw for q in (quality, other))
    fold = folds_of(names, QUICK.folds, QUICK.seed)
    assert (one == two).tolist() == (fold == fold[0]).tolist()


def test_rows_of_one_question_are_in_one_fold() -> None:
    names = [f"q{i % 40}" for i in range(200)]
    fold = folds_of(names, 5, 0)
    assert len({(name, int(k)) for name, k in zip(names, fold, strict=True)}) == 40
    assert np.bincount(fold).tolist() == [40] * 5


def test_too_few_rows_and_rows_all_alike_are_refused(encoder: Encoder) -> None:
    with pytest.raises(BadVerdict, match="too few"):
        taught(encoder, rows(20))
    alike = [type(r)(r.prompt_id, r.question, r.stage, r.answer, 100.0, None) for r in rows(100)]
    with pytest.raises(BadVerdict, match="all have quality 100"):
        taught(encoder, alike)


def test_a_judge_without_a_head_for_the_case_says_what_is_lacking(judge: EmbeddingJudge) -> None:
    only = EmbeddingJudge(judge.encoder, tuple(h for h in judge.heads if "certainty" in h.groups), {})
    with pytest.raises(BadVerdict, match="without log-probabilities"):
        only.score("what", "cat")
    with pytest.raises(BadVerdict, match="without an answer"):
        only.score("what", None)


def test_told_to_read_answers_it_does_though_log_probabilities_tell_as_much(encoder: Encoder) -> None:
    made = rows(160)
    told = {head.groups for head in taught(encoder, made, replace(QUICK, reads=True)).heads}
    assert ("question", "answer", "certainty") in told
    assert ("question", "certainty") not in told
