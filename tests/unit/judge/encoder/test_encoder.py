"""The encoder's numpy against the same arithmetic told slowly; what it reads of long texts, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia_judge.encoder.encoder import Encoder, _passes
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


class Hearing:
    """A tokenizer that keeps how long the texts were that it was given."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.heard: list[int] = []

    def encode_batch(self, texts: list[str], **options: Any) -> Any:
        self.heard += map(len, texts)
        return self.real.encode_batch(texts, **options)


def test_a_huge_text_costs_no_more_than_a_long_one(encoder: Encoder) -> None:
    """Of six tokens, each is of 16 characters at most: 48 from either end, and a space between."""
    hearing = Hearing(encoder.tokenizer)
    heard = replace(encoder, tokenizer=hearing)  # type: ignore[arg-type]
    texts = ["two " * 24, "two " * 24 + ".", "what is the " + "no " * 9000 + "cat and paris"]
    ends = heard.encode(texts, tokens_max=6)[2]
    assert hearing.heard == [96, 97, 97]
    assert ends == pytest.approx(
        encoder.encode(["what is the no no no cat and paris"], tokens_max=6)[0], abs=2e-6
    )


def test_texts_are_encoded_512_tokens_at_a_time_padding_included() -> None:
    windows = [(at, [7] * length) for at, length in enumerate((2, 2, 30, 62, 62, 62, 62, 62, 62, 62, 62, 62))]
    passes = list(_passes(windows))
    assert [entry for group in passes for entry in group] == windows
    assert [len(group) for group in passes] == [8, 4]


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
