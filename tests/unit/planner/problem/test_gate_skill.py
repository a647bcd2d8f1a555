"""A judge that guesses is named, with its AUC; and a table's judge is held against the spec's."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.problem import Judge
from cascadia.domain.quality import QualityTable, ScoredBy
from cascadia.planner.problem.gate_skill import skill, weak, weak_gates
from cascadia.planner.problem.scores import judge_notes

AT_RANDOM = "no better than at random"
LLM = Judge("llm", "self-hosted", model="org/Judge-8B")


def table(auc_shift: float, count: int = 400, graded: bool = False) -> QualityTable:
    """Two stages; scores of the first are normal, of right answers `auc_shift` deviations higher."""
    rng = np.random.default_rng(7)
    right = rng.random((2, count)) < 0.5
    score = np.clip(50 + 15 * (rng.standard_normal((2, count)) + auc_shift * right), 0, 100)
    quality = np.where(right, 90.0, 70.0) if graded else 100.0 * right
    ones = np.ones((2, count))
    return QualityTable(
        tuple(map(str, range(count))),
        ("small", "large"),
        score,
        quality=quality,
        input_tokens=ones,
        output_tokens=ones,
    )


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(
    ("shift", "told"), [(0.0, AT_RANDOM), (0.2, AT_RANDOM), (-0.8, "upside down"), (1.0, None)]
)
def test_a_gate_is_told_weak_where_a_coin_could_be_as_good(
    shift: float, told: str | None, graded: bool
) -> None:
    notes = list(weak_gates(table(shift, graded=graded)))
    assert len(notes) == (told is not None)
    for note in notes:
        assert note.startswith(
            "the scores of stage 'small' tell right answers from wrong ones with an AUC of 0."
        )
        assert told is not None
        assert told in note


def test_few_questions_cannot_tell_a_fair_judge_from_a_coin() -> None:
    few = table(0.8, count=6)
    found = skill(few.score[0], few.quality[0])
    assert found is not None
    assert found.auc > 0.6
    assert weak(found) is not None


def test_of_a_judge_that_stands_for_quality_itself_nothing_is_said() -> None:
    known = table(1.0)
    assert list(weak_gates(replace(known, score=known.quality))) == []
    assert skill(known.score[0], np.full(400, 80.0)) is None


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (None, None),
        (ScoredBy(), None),
        (ScoredBy("llm", "judge-8b"), None),
        (ScoredBy("llm", "judge"), None),
        (
            ScoredBy("llm", "org/other"),
            "the scores of q are by org/other, and the spec's judge is org/Judge-8B",
        ),
        (ScoredBy("check", "exact"), "for a gate without error"),
    ],
)
def test_who_made_the_scores_is_held_against_the_specs_judge(said: ScoredBy | None, note: str | None) -> None:
    notes = judge_notes(replace(table(1.0), scored_by=said), LLM, "q")
    assert [note is not None and note in told for told in notes] == [True] * (note is not None)


def test_scores_of_another_kind_of_judge_are_refused() -> None:
    with pytest.raises(
        BadInput, match="q: its scores are of a judge of kind embedding, and the spec's is of kind llm"
    ):
        judge_notes(replace(table(1.0), scored_by=ScoredBy("embedding")), LLM, "q")
