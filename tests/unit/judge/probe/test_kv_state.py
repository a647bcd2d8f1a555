"""A slot that llama.cpp saved is read as it is written, or refused in one line."""

import struct

import numpy as np
import pytest

from cascadia_judge.errors import BadVerdict
from cascadia_judge.probe.kv_state import read_kv_state
from cascadia_judge.probe.reading import layer_of, read
from tests.unit.judge.probe.states import LAYERS, WIDTH, saved

VALUES = np.random.default_rng(0).normal(size=(LAYERS, 7, WIDTH)).astype(np.float16)


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_values_of_every_layer_are_those_of_the_slot(slot: int) -> None:
    state = read_kv_state(saved(VALUES, slot=slot, slots=3))
    assert (state.tokens, state.layers, state.width) == (7, LAYERS, WIDTH)
    for layer in range(LAYERS):
        assert np.array_equal(state.values(layer), VALUES[layer])


def test_a_reading_is_the_questions_end_the_answers_mean_and_its_last_token() -> None:
    reading = read(read_kv_state(saved(VALUES)), 3, prompt_tokens=4)
    assert reading.answer is not None
    values = VALUES[3].astype(float)
    assert np.array_equal(reading.question, values[3])
    assert np.array_equal(reading.answer, np.concatenate([values[4:].mean(axis=0), values[6]]))
    assert read(read_kv_state(saved(VALUES)), 3, prompt_tokens=7).answer is None
    assert layer_of(30) == 18


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends too early"),
        (b"GGUF" + bytes(40), "no saved slot of version"),
        (saved(VALUES)[:900], "ends too early|another length"),
        (saved(VALUES) + b"more", "another length"),
        (saved(VALUES, kind=0), "not float16"),
        (saved(VALUES, kind=8), "not float16"),
        (saved(VALUES[:, :0]), "holds no tokens"),
        (saved(VALUES, transposed=1), "another order than by token"),
        (saved(VALUES, turned=(1, 0)), "another order than by token"),
        (saved(VALUES, turned=(0, 1)), "another order than by token"),
        (saved(VALUES, step=0), "another order than by token"),
        (saved(VALUES, step=-1), "another order than by token"),
        (saved(VALUES, sequences=2), "another order than by token"),
    ],
)
def test_what_is_no_cache_in_float16_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadVerdict, match=said):
        read_kv_state(content)


def test_a_file_that_claims_more_than_it_holds_is_refused_and_not_allocated() -> None:
    content = bytearray(saved(VALUES))
    struct.pack_into("<I", content, 8, 2**31)
    with pytest.raises(BadVerdict, match="ends too early"):
        read_kv_state(bytes(content))


def test_a_slot_of_another_request_is_refused() -> None:
    with pytest.raises(BadVerdict, match="holds 7 tokens, and the prompt has 8"):
        read(read_kv_state(saved(VALUES)), 3, prompt_tokens=8)
