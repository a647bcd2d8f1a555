"""The encoder's numpy against the same arithmetic told slowly; what it reads of long texts, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.errors import BadVerdict
from tests.unit.judge.tiny_encoder import HIDDEN, WORDS, slowly, write

CLS, SEP = WORDS.index("[CLS]"), WORDS.index("[SEP]")


def ids(text: str) -> list[int]:
    return [CLS, *(WORDS.index(word) for word in text.split()), SEP]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder.read(folder)


def test_vectors_are_those_of_the_slow_arithmetic(encoder: Encoder, folder: Path) -> None:
    texts = ["what is two and two ?", "four", "the cat is no cat and paris is no cat"]
    expected = np.array([slowly(folder, ids(text)) for text in texts])
    assert encoder.encode(texts) == pytest.approx(expected, abs=2e-6)


def test_a_text_has_the_same_vector_alone_and_among_others(encoder: Encoder) -> None:
    texts = ["two", "what is the cat ? no", "", "four and four and four", "paris"]
    together = encoder.encode(texts)
    alone = np.vstack([encoder.encode([text]) for text in texts])
    assert together == pytest.approx(alone, abs=2e-6)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1, 1, 0, 1, 1], abs=1e-6)


def test_of_a_long_text_the_beginning_and_the_end_are_read(encoder: Encoder, folder: Path) -> None:
    long = "what is the " + "no " * 40 + "cat and paris"
    found = encoder.encoded([long], tokens_max=6)
    halves = [np.array(slowly(folder, ids(half))) for half in ("what is the", "cat and paris")]
    assert found.tokens.tolist() == [6]
    assert found.vectors[0] @ encoder.encode(["what is the"])[0] > 0.5
    assert not np.allclose(found.vectors[0], halves[0])
    again = encoder.encode(["what is the " + "two " * 90 + "cat and paris"], tokens_max=6)
    assert found.vectors == pytest.approx(again, abs=2e-6)


def test_no_text_is_too_long_or_too_odd(encoder: Encoder) -> None:
    vectors = encoder.encode(["cat " * 100_000, "\ud800 cat", "\x00\u202e", "🐈" * 5000])
    assert vectors.shape == (4, HIDDEN)
    assert np.isfinite(vectors).all()


def test_no_texts_are_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, HIDDEN)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_without_a_file_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).unlink()
    with pytest.raises(BadVerdict, match=f"has no {name}"):
        Encoder.read(tmp_path)


def test_other_kinds_of_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadVerdict, match="is a llama"):
        Encoder.read(write(tmp_path, model_type="llama"))
    with pytest.raises(BadVerdict, match=r"has no tensor encoder\.layer\.2"):
        Encoder.read(write(tmp_path, num_hidden_layers=3))


def test_weights_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadVerdict, match="cannot be read"):
        Encoder.read(tmp_path)
