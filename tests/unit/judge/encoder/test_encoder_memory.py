"""What is encoded twice is worked out once, and is the same."""

from collections.abc import Sequence

import numpy as np

from cascadia_judge.encoder.encoder import TOKENS_MAX, Encoded
from cascadia_judge.encoder.memory import Remembering


class Counting:
    """The vector of a text is its length and its first letter; `asked` are the texts in the order that they came."""

    size = 2

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encoded(self, texts: Sequence[str], tokens_max: int = TOKENS_MAX) -> Encoded:
        self.asked += texts
        vectors = [[len(text), ord((text or " ")[0])] for text in texts]
        return Encoded(
            np.array(vectors, np.float32).reshape(-1, 2), np.array([min(len(t), tokens_max) for t in texts])
        )


def test_a_text_is_encoded_once_and_comes_back_in_its_place() -> None:
    plain, remembering = Counting(), Remembering(counting := Counting())
    for texts in (["one", "two", "one"], [], ["two", "three"], ["\ud800"]):
        want, have = plain.encoded(texts), remembering.encoded(texts)
        assert np.array_equal(want.vectors, have.vectors)
        assert np.array_equal(want.tokens, have.tokens)
        assert have.vectors.shape == (len(texts), 2)
    assert counting.asked == ["one", "two", "three", "\ud800"]


def test_how_much_is_read_of_a_text_belongs_to_it() -> None:
    remembering = Remembering(Counting())
    assert [remembering.encoded(["a long one"], most).tokens[0] for most in (3, 5, 3)] == [3, 5, 3]


def test_no_more_is_kept_than_said_and_what_was_used_last_stays() -> None:
    remembering = Remembering(counting := Counting(), most=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        remembering.encoded([text])
    assert counting.asked == ["a", "b", "c", "b"]
