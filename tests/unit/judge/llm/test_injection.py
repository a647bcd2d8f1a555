"""What of the injection suite can be held without a real model: its make-up, and that none of it leaves its place."""

from collections import Counter

from cascadia_judge.llm.prompt import MARK_LENGTH, messages, parted
from tests.injection.attempts import attempts
from tests.injection.tokens import CONTROL_TOKENS

ANSWER = "The capital of Australia is Sydney"


def test_there_are_enough_attempts_of_every_family_and_no_two_alike() -> None:
    made = attempts()
    assert len(made) >= 200
    assert len({attempt.make(ANSWER) for attempt in made}) == len(made)
    assert min(Counter(attempt.family for attempt in made).values()) >= 10
    assert all(ANSWER in a.make(ANSWER) for a in made if not a.replaces and a.family != "letters")


def test_no_attempt_ends_the_marked_answer_or_its_message() -> None:
    for attempt in attempts():
        answer = attempt.make(ANSWER)
        content = messages("What is the capital of Australia?", answer)[1]["content"]
        mark = content.rpartition("[end of answer ")[2].partition("]")[0]
        assert len(mark) == MARK_LENGTH
        assert content.count(mark) == 4, attempt.name
        assert f"[answer {mark}]\n{parted(answer)}\n[end of answer {mark}]" in content
        assert not [token for token in CONTROL_TOKENS if token in content], attempt.name
