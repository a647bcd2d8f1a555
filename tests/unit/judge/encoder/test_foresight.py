"""Heads that tell of the question alone, and what they foresaw of prompts that they had not seen."""

from pathlib import Path

import numpy as np
import pytest

from cascadia_judge import foresight
from cascadia_judge.embedding import EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.file import dump
from tests.unit.judge import tiny_encoder
from tests.unit.judge.boost_quickly import QUICK

pytestmark = pytest.mark.slow

STAGES = ("small", "large")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return Encoder.read(tiny_encoder.write(tmp_path_factory.mktemp("encoder")))


def asked(count: int = 240) -> tuple[list[str], list[str], np.ndarray]:
    """Questions with a cat are too hard for the small stage, mostly."""
    rng = np.random.default_rng(3)
    hard = rng.random(count) < 0.5
    questions = [" ".join(["what", "is", *(["cat", "cat"] if h else ["two", "four"]), "?"]) for h in hard]
    right = np.stack([rng.random(count) < np.where(hard, 0.15, 0.9), rng.random(count) < 0.95])
    return questions, [f"p{i}" for i in range(count)], 100.0 * right


@pytest.mark.long
def test_it_foresees_of_each_stage_what_the_question_tells(encoder: Encoder) -> None:
    questions, ids, quality = asked()
    _, found = foresight.learn(encoder, questions, ids, stages=STAGES, quality=quality, course=QUICK)
    hard = np.array(["cat" in q for q in questions])
    small, large = found.values
    assert small[hard].mean() < 35 < 70 < small[~hard].mean()
    assert large[hard].mean() > 80


def test_what_a_prompt_was_worth_hardly_tells_in_what_is_foreseen_of_it(encoder: Encoder) -> None:
    questions, ids, quality = asked()
    _, found = foresight.learn(encoder, questions, ids, stages=STAGES, quality=quality, course=QUICK)
    # Within questions alike, whoever happened to be right is foreseen no better than who was wrong.
    alike = np.array(["cat" not in q for q in questions])
    right = quality[0] > 50
    assert abs(found.values[0][alike & right].mean() - found.values[0][alike & ~right].mean()) < 6


def test_a_file_serves_and_says_what_was_foreseen(encoder: Encoder, tmp_path: Path) -> None:
    questions, ids, quality = asked()
    heads, found = foresight.learn(encoder, questions, ids, stages=STAGES, quality=quality, course=QUICK)
    text = dump(heads, {}, {foresight.KEY: foresight.written(found)})
    (file := tmp_path / "foresight.json").write_text(text)
    back = foresight.read(text, "file")
    assert (back.prompt_ids, back.stages) == (tuple(ids), STAGES)
    assert back.values == pytest.approx(found.values, abs=1e-3)
    judge = EmbeddingJudge.read(file, encoder)
    assert judge.foresees
    assert judge.score("what is two four ?", None, None, "small").score > 60


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"foreseen": {"prompt_ids": ["a"], "stages": ["s"], "values": "AA"}}']
)
def test_a_file_that_does_not_say_is_refused(text: str) -> None:
    with pytest.raises(BadVerdict, match="does not say"):
        foresight.read(text, "file")
