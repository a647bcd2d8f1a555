"""Checks of answers: what passes, and what must not."""

import pytest

from cascadia.demo.questions.question import Check, number, words


@pytest.mark.parametrize(
    "answer", ["43", "15 + 28 = 43", "The answer is 43.", "43.0", "\n43\nQ: What is 1 + 1?\nA: 2"]
)
def test_a_number_is_the_last_one_of_the_first_line(answer: str) -> None:
    assert number(43).passes(answer)


@pytest.mark.parametrize("answer", ["", "forty-three", "430", "43 + 1 = 44", "4.3", "-43"])
def test_another_number_is_wrong(answer: str) -> None:
    assert not number(43).passes(answer)


def test_thousands_may_be_set_off_by_commas() -> None:
    assert number(12000).passes("12,000 grams")


def test_a_comparison_is_decided_by_the_number_named_first() -> None:
    check = Check("first number", ("134",))
    assert check.passes("134 is larger than 12.")
    assert not check.passes("12 is smaller than 134.")


@pytest.mark.parametrize("answer", ["Paris", "paris.", "The capital of France is Paris"])
def test_words_stand_anywhere_in_the_first_line(answer: str) -> None:
    assert words("Paris").passes(answer)


@pytest.mark.parametrize("answer", ["", "Parisian", "London\nParis", "p a r i s"])
def test_parts_of_words_and_later_lines_do_not_count(answer: str) -> None:
    assert not words("Paris").passes(answer)


def test_who_names_the_wrong_one_too_has_not_chosen() -> None:
    check = words("yes", wrong=("no",))
    assert check.passes("Yes, it is.")
    assert not check.passes("Yes and no")
    assert check.passes("Yes, nobody doubts it")


def test_each_of_several_right_answers_will_do() -> None:
    check = words("grey", "gray")
    assert check.passes("Gray")
    assert check.passes("grey")


def test_answers_of_several_words_must_be_whole() -> None:
    assert words("South America").passes("In South America.")
    assert not words("South America").passes("America, in the South")
