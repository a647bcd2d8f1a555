"""The questions of the demo and those that its gate learns from."""

from collections import Counter
from itertools import islice
from random import Random

from cascadia.demo.questions.kinds import drawn
from cascadia.demo.questions.questions import (
    ASKED,
    DEMO_QUESTIONS,
    FACT_KINDS,
    demo_questions,
    side,
    training_questions,
)

TRAINING = 600


def test_there_are_as_many_as_it_says_and_they_are_always_the_same() -> None:
    one = demo_questions()
    assert len({question.text for question in one}) == DEMO_QUESTIONS == 72
    assert one == demo_questions()


def test_half_ask_for_a_fact() -> None:
    asked = Counter(question.kind in FACT_KINDS for question in demo_questions())
    assert asked[True] == 36


def test_no_question_and_no_listed_fact_is_on_both_sides() -> None:
    demo, training = demo_questions(), training_questions(TRAINING)
    assert not {question.text for question in demo} & {question.text for question in training}
    assert not {question.key for question in demo} & {question.key for question in training}


def test_the_side_does_not_depend_on_a_seed() -> None:
    assert {side(question) for question in training_questions(200, seed=99)} == {"training"}
    assert {side(question) for question in demo_questions(60, seed=99)} == {"demo"}


def test_hundreds_of_questions_can_be_trained_on_and_all_kinds_are_among_the_first() -> None:
    questions = training_questions(TRAINING)
    assert len({question.text for question in questions}) == TRAINING
    first = {question.kind for question in questions[: len(ASKED)]}
    assert first == {question.kind for question in questions}


def test_every_right_answer_passes_its_own_check_and_none_says_nothing() -> None:
    for question in (*demo_questions(), *training_questions(TRAINING)):
        for right in question.check.right:
            assert question.check.passes(right), question
        assert not question.check.passes("I do not know."), question


def test_sums_are_what_python_makes_of_them() -> None:
    """An oracle beside the builder: the text itself is evaluated."""
    seen = 0
    coded = islice(drawn("code", Random(1)), 60)
    for question in (*training_questions(TRAINING), *coded):
        if question.kind == "addition":
            text = question.text.removeprefix("What is ").removesuffix("?")
            a, b = text.split(" + ")
            assert question.check.right == (str(int(a) + int(b)),)
            seen += 1
        if question.kind == "code":
            inner = question.text.removeprefix("In Python, what does ").removesuffix(" show?")
            said = str(eval(inner.removeprefix("print"), {}))
            assert question.check.passes(said), question
            seen += 1
    assert seen > 120


def test_a_question_is_written_with_single_spaces() -> None:
    for question in [*demo_questions(), *training_questions(TRAINING)]:
        assert question.text == " ".join(question.text.split())
