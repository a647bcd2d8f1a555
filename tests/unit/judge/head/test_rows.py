"""Rows of graded answers are read as they are written; a mistake is named with its line."""

import json

import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.rows import last_said, read_rows

ROW = {"prompt_id": "q1", "question": "2+2?", "stage": "small", "answer": "4", "quality": 100}


def line(**changes: object) -> str:
    return json.dumps(ROW | changes)


def test_a_row_is_read_and_blank_lines_are_not() -> None:
    (row,) = read_rows(["", line(), "  "], "rows")
    assert (row.prompt_id, row.question, row.stage, row.answer, row.quality) == tuple(ROW.values())
    assert row.certainty is None


def test_of_chat_messages_the_last_that_the_user_said_is_the_question() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "2+2?"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "Let me"},
    ]
    assert read_rows([line(question=messages)], "rows")[0].question == "2+2?"
    assert last_said([{"role": "system", "content": "x"}, "y"]) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no object"),
        (line(score=3), "unknown key 'score'"),
        (line(quality=101), "quality is 101"),
        (line(quality=True), "quality is True"),
        (line(quality=None), "quality is None"),
        (line(prompt_id=None), "prompt_id is missing"),
        (line(prompt_id=""), "prompt_id is missing"),
        (line(question=3), "no text"),
        (line(question=[{"role": "assistant", "content": "x"}]), "no text"),
        (line(certainty={"tokens": 1}), "certainty: is no certainty"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(content: str, said: str) -> None:
    with pytest.raises(BadVerdict, match=f"rows: line 2.*{said}"):
        read_rows([line(), content], "rows")


def test_no_rows_are_refused() -> None:
    with pytest.raises(BadVerdict, match="has no rows"):
        read_rows([], "rows")


@pytest.mark.parametrize("quality", [0, 0.5, 1, 100])
def test_quality_is_within_a_hundred(quality: float) -> None:
    (row,) = read_rows([line(quality=quality)], "rows.jsonl")
    assert row.quality == quality


@pytest.mark.parametrize("quality", [-0.5, -1, 100.5])
def test_quality_beyond_is_refused(quality: float) -> None:
    with pytest.raises(BadVerdict, match="quality is"):
        read_rows([line(quality=quality)], "rows.jsonl")
