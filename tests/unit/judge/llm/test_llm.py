"""An LLM judge is shown data of limited length, and its reply becomes a score or a refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_judge.errors import BadVerdict
from cascadia_judge.llm.llm import MANNERS, TALKATIVE_TOKENS, Token, Verdict, clipped, request, verdict


def test_a_judge_is_asked_as_at_a_gate_then_forced_then_let_talk_and_at_last_made_to_vary() -> None:
    bodies = [request("Q", "A", manner) for manner in MANNERS]
    assert [body["max_tokens"] for body in bodies] == [1, *[TALKATIVE_TOKENS] * 3]
    assert ["response_format" in body for body in bodies] == [False, True, False, False]
    schema = bodies[1]["response_format"]["json_schema"]["schema"]
    assert schema == {"type": "integer", "minimum": 0, "maximum": 9}
    assert [body["temperature"] > 0 for body in bodies] == [False, False, False, True]
    assert all(body["logprobs"] for body in bodies)


def test_an_engine_without_logprobs_is_not_asked_for_them() -> None:
    assert not {"logprobs", "top_logprobs"} & set(request("Q", "A", MANNERS[0], logprobs=False))


def test_of_a_forced_digit_only_the_chances_of_digits_count() -> None:
    tokens = [Token("9", {"The": 0.97, "9": 0.02, "0": 0.01}), Token("\n", {"\n": 1.0})]
    assert verdict("9", tokens, forced=True) == Verdict(pytest.approx(200 / 3), expected=True)
    with pytest.raises(BadVerdict):
        verdict("9", tokens)


def test_a_score_is_the_expected_digit_under_the_first_tokens_probabilities() -> None:
    found = verdict("9", [Token("9", {"9": 0.6, "0": 0.4})])
    assert found == Verdict(pytest.approx(60.0), expected=True)


def test_a_digit_after_other_tokens_is_read_by_its_own_probabilities() -> None:
    tokens = [Token("Grade", {"Grade": 1.0}), Token(": ", {": ": 1.0}), Token("9", {"9": 0.5, "0": 0.5})]
    assert verdict("Grade: 9", tokens) == Verdict(pytest.approx(50.0), expected=True)


@pytest.mark.parametrize(
    ("text", "grade"),
    [("7", 7), (" 7\n", 7), ("Grade: 7", 7), ("**7**", 7), ("7.", 7), ("0", 0), ("7 7", 7)],
)
def test_without_probabilities_the_digit_counts(text: str, grade: int) -> None:
    assert verdict(text, []) == Verdict(pytest.approx(100 * grade / 9), expected=False)


@pytest.mark.parametrize(
    "text", ["", "good", "10", "7/10", "90", "70%", "3 or 4", "-3", "7.5", "7 out of 9", "out of 9"]
)
def test_whatever_is_not_one_digit_is_refused(text: str) -> None:
    with pytest.raises(BadVerdict, match="the judge wrote"):
        verdict(text, [])


def test_one_token_that_is_no_grade_is_refused_by_its_probabilities() -> None:
    with pytest.raises(BadVerdict, match="the judge wrote 'The'"):
        verdict("The", [Token("The", {"The": 0.9, "7": 0.1})])


@given(question=st.text(max_size=400), answer=st.text(max_size=400), tokens=st.integers(1, 120))
def test_what_the_judge_reads_is_limited(question: str, answer: str, tokens: int) -> None:
    shown = clipped(question, answer, tokens)
    if len(question) + len(answer) <= 4 * tokens:
        assert shown == (question, answer)
    else:
        kept = sum(len(text) for text in shown if "characters left out" not in text)
        cut = [text for text in shown if "characters left out" in text]
        assert kept + sum(len(text.partition("\n[... ")[0]) for text in cut) <= 4 * tokens


def test_a_short_question_leaves_its_room_to_the_answer() -> None:
    question, answer = clipped("why?", "x" * 96, 25)
    assert (question, answer) == ("why?", "x" * 96)


def test_of_a_long_answer_both_ends_are_shown() -> None:
    _, answer = clipped("", "a" * 500 + "z" * 500, 50)
    assert answer.startswith("a" * 100 + "\n[... 800 characters left out ...]\n")
    assert answer.endswith("z" * 100)


@pytest.mark.parametrize(
    ("question", "answer", "of_question", "of_answer"),
    [
        (1000, 1000, 100, 100),
        (30, 1000, 30, 170),
        (1000, 30, 170, 30),
        (120, 1000, 100, 100),
        (0, 1000, 0, 200),
    ],
)
def test_each_text_has_half_and_what_the_other_does_not_need(
    question: int, answer: int, of_question: int, of_answer: int
) -> None:
    for text, was, kept in zip(
        clipped("q" * question, "a" * answer, 50), (question, answer), (of_question, of_answer), strict=True
    ):
        assert text.count("q") + text.count("a") - text.count("characters") * 2 == kept
        assert (f"[... {was - kept} characters left out ...]" in text) == (kept < was)


@pytest.mark.parametrize(
    ("tokens", "forced", "score", "expected"),
    [
        ([Token("7", {"7": 0.5, "9": 0.5})], False, 8 / 9 * 100, True),
        ([Token("7", {"7": 0.5, "9": 0.5})], True, 8 / 9 * 100, True),
        ([Token("7", {"7": 0.5, "no": 0.5})], True, 7 / 9 * 100, True),
        ([], False, 7 / 9 * 100, False),
        ([], True, 7 / 9 * 100, False),
    ],
)
def test_probabilities_count_where_there_are_some(
    tokens: list[Token], forced: bool, score: float, expected: bool
) -> None:
    said = verdict("7", tokens, forced=forced)
    assert said.score == pytest.approx(score)
    assert said.expected is expected


CUT = "[... {} characters left out ...]"


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("q" * 3, "a" * 3, ("q" * 3, "a" * 3)),
        ("q" * 3, "a" * 9 + "z" * 8, ("q" * 3, f"aaaaa\n{CUT.format(8)}\nzzzz")),
        ("q" * 17, "a" * 3, (f"qqqqq\n{CUT.format(8)}\nqqqq", "a" * 3)),
        ("q" * 20, "a" * 20, (f"qqq\n{CUT.format(14)}\nqqq", f"aaa\n{CUT.format(14)}\naaa")),
    ],
)
def test_what_one_text_does_not_need_the_other_may_have(
    question: str, answer: str, expected: tuple[str, str]
) -> None:
    assert clipped(question, answer, 3) == expected


def test_a_single_character_is_the_first() -> None:
    assert clipped("abc", "xyz", 0) == (f"a\n{CUT.format(2)}\n", f"x\n{CUT.format(2)}\n")
