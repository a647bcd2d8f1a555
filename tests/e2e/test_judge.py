"""The real encoder: its vectors are those of the library that it was published for, and a judge on it tells
topics apart."""

from pathlib import Path

import numpy as np
import pytest

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.domain.errors import CascadiaError
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.head.model_selection import see, teach
from cascadia_judge.head.rows import Row
from cascadia_judge.head.training import Course

REFERENCE = {
    "This is an example sentence": (0.0676569, 0.0634959, 0.0487131, 0.079305),
    "Each sentence is converted": (0.0864386, 0.1027626, 0.0053945, 0.0020444),
    "Zürich, 東京 и Москва – naïve café ☕": (0.0820405, 0.0639646, 0.0606858, 0.0104477),
}
"""The first four components by transformers 5.19.0 on torch 2.13.0, one text at a time, mean of the last
layer, length 1."""
COSINES = {
    ("This is an example sentence", "Each sentence is converted"): 0.4045593,
    ("That is a happy person", "That is a very happy person"): 0.9429151,
    ("That is a happy person", "Today is a sunny day"): 0.2568762,
}
"""By the same."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    try:
        folder: Path = fetch(model_named("minilm-l6-v2"))
    except CascadiaError as error:
        pytest.skip(f"the encoder cannot be fetched: {error}")
    return Encoder.read(folder)


def test_vectors_are_those_of_the_library_that_the_model_was_published_for(encoder: Encoder) -> None:
    vectors = encoder.encode(list(REFERENCE))
    assert vectors[:, :4] == pytest.approx(np.array(list(REFERENCE.values())), abs=2e-6)
    for (one, other), cosine in COSINES.items():
        a, b = encoder.encode([one, other])
        assert float(a @ b) == pytest.approx(cosine, abs=2e-6)


def test_a_judge_learns_from_three_hundred_answers_which_questions_a_model_fails(encoder: Encoder) -> None:
    rng = np.random.default_rng(0)
    towns = ("Paris", "Rome", "Oslo", "Lima", "Cairo", "Delhi", "Quito", "Riga")
    rows = []
    for i in range(300):
        a, b = rng.integers(10, 99, 2)
        if i % 2:
            rows.append(Row(f"q{i}", f"What is {a} times {b}?", "small", str(rng.integers(100, 9999)), 0.0))
        else:
            town = towns[rng.integers(len(towns))]
            rows.append(
                Row(f"q{i}", f"In which country is {town}? ({a})", "small", f"{town} is a capital.", 100.0)
            )
    taught = teach(rows, see(encoder, rows, lambda share: None), Course(), lambda share: None)
    judge = EmbeddingJudge(encoder, taught.heads, {})
    sums, towns_asked = judge.scores(
        [Case("How much is 31 times 44?", stage="small"), Case("In which country is Madrid?", stage="small")]
    )
    assert sums.score < 25
    assert towns_asked.score > 75
