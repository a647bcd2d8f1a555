"""Exits of single tokens change nothing where there are none, and leave the KV cache of a full pass where there are."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from cascadia.exits.decoder.decode import Decoder, decoded
from cascadia.exits.decoder.llama import LAYER, Cache, Llama, Shape, read_llama

SHAPE = Shape(layers=4, heads=4, kv_heads=2, head=8, rope_base=10_000.0, epsilon=1e-5)
WIDTH, WORDS, PROMPT = 32, 50, [3, 1, 4, 1, 5]


def little(seed: int = 0) -> Llama:
    rng = np.random.default_rng(seed)

    def drawn(*size: int) -> np.ndarray:
        return (rng.normal(size=size) / np.sqrt(size[-1])).astype(np.float32)

    kv, out = SHAPE.kv_heads * SHAPE.head, SHAPE.heads * SHAPE.head
    sizes = {"query": (out, WIDTH), "key": (kv, WIDTH), "value": (kv, WIDTH), "out": (WIDTH, out)}
    sizes |= {"gate": (64, WIDTH), "up": (64, WIDTH), "down": (WIDTH, 64)}
    ones = {name: np.ones(WIDTH, np.float32) for name in ("attention_norm", "mlp_norm")}
    layers = tuple(ones | {name: drawn(*size) for name, size in sizes.items()} for _ in range(SHAPE.layers))
    embedding = 3 * drawn(WORDS, WIDTH)
    return Llama(SHAPE, embedding, norm=np.ones(WIDTH, np.float32), head=embedding, layers=layers)


MODEL = little()


def decoder(ramp: int | None, sure: Callable[[float], bool] = lambda doubt: False, flush: int = 8) -> Decoder:
    return Decoder(MODEL, 80, ramp, sure, flush)


def full_pass(tokens: list[int]) -> tuple[Cache, list[int]]:
    """Cache and labels of all positions of one pass over `tokens`."""
    cache = Cache(80, SHAPE)
    hidden = MODEL.through(MODEL.embedding[tokens], list(range(len(tokens))), 0, SHAPE.layers, cache)
    return cache, MODEL.logits(hidden).argmax(axis=1).tolist()


def test_a_pass_token_by_token_is_that_of_all_at_once() -> None:
    one_by_one = decoder(None)
    written = decoded(one_by_one, PROMPT, 20)
    cache, labels = full_pass(one_by_one.tokens)
    assert written == labels[len(PROMPT) - 1 :]
    for mine, whole in zip(one_by_one.cache.layers, cache.layers, strict=True):
        assert np.allclose(mine.keys, whole.keys, atol=1e-5)


@pytest.mark.parametrize("ramp", [1, 2, 3])
def test_without_exits_the_tokens_are_the_models(ramp: int) -> None:
    with_ramp = decoder(ramp)
    assert decoded(with_ramp, PROMPT, 40) == decoded(decoder(None), PROMPT, 40)
    assert with_ramp.late_rows == with_ramp.late_passes == with_ramp.early_rows == 39
    assert not any(fed.exited for fed in with_ramp.fed)


@pytest.mark.parametrize("flush", [1, 3, 8])
@pytest.mark.parametrize("limit", [0.3, 0.6, 1.1])
def test_after_exits_and_what_they_owe_the_cache_is_that_of_a_full_pass(limit: float, flush: int) -> None:
    some = decoder(2, lambda doubt: doubt < limit, flush)
    written = decoded(some, PROMPT, 40)
    assert len(written) == 40
    cache, _ = full_pass(some.tokens)
    for mine, whole in zip(some.cache.layers, cache.layers, strict=True):
        assert mine.there[: len(some.tokens)].all()
        assert not mine.there[len(some.tokens) :].any()
        assert np.allclose(mine.keys, whole.keys, atol=1e-5)
        assert np.allclose(mine.values, whole.values, atol=1e-5)
    # No work of the late layers is spared: they are run less often, for as many rows.
    assert some.late_rows == some.early_rows == 39
    assert some.late_passes <= 39


def test_late_layers_are_run_once_for_all_that_exited_before_and_after_flush_in_a_row_at_least() -> None:
    all_exit = decoder(2, lambda doubt: True, flush=4)
    decoded(all_exit, PROMPT, 41)
    assert (all_exit.early_rows, all_exit.exited, all_exit.late_passes) == (40, 32, 8)


def test_feedback_ends_with_the_first_token_that_the_model_would_not_have_written() -> None:
    some = decoder(1, lambda doubt: True, flush=5)
    decoded(some, PROMPT, 31)
    _, labels = full_pass(some.tokens)
    wanted, at = [], len(PROMPT)
    while at < len(some.tokens):
        together = range(at, min(at + 6, len(some.tokens)))
        for position in together:
            written = [*some.tokens, None][position + 1]
            exited = position - at < 5
            wanted.append((labels[position], exited))
            if exited and written is not None and written != labels[position]:
                break
        at += 6
    found = [(fed.final, fed.exited) for fed in some.fed]
    assert found[: len(wanted) - 6] == wanted[: len(wanted) - 6]
    assert len(found) < 30, "some exits differ, so less than all is fed back"


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    names = {"model.embed_tokens.weight": MODEL.embedding, "model.norm.weight": MODEL.norm}
    for at, layer in enumerate(MODEL.layers):
        names |= {f"model.layers.{at}.{LAYER[name]}.weight": value for name, value in layer.items()}
    save_file(
        {name: np.ascontiguousarray(value) for name, value in names.items()}, tmp_path / "model.safetensors"
    )
    config = {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": WIDTH,
    }
    config |= {"rope_theta": 10_000.0, "rms_norm_eps": 1e-5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = Decoder(read_llama(tmp_path), 80, 2, lambda doubt: False)
    assert decoded(again, PROMPT, 20) == decoded(decoder(None), PROMPT, 20)


def test_an_answer_ends_behind_its_stop() -> None:
    whole = decoded(decoder(None), PROMPT, 30)
    stop = whole[7]
    assert decoded(decoder(None), PROMPT, 30, stop) == whole[: whole.index(stop) + 1]


@pytest.mark.parametrize(("ramp", "flush"), [(0, 8), (4, 8), (2, 0)])
def test_a_ramp_stands_between_layers_and_flushes(ramp: int, flush: int) -> None:
    with pytest.raises(ValueError, match=r"a ramp behind|flush after"):
        decoder(ramp, flush=flush)
