"""Families whose config.json leaves things out: filled in as transformers' classes of that name do, by hand."""

from typing import Any

import pytest

from cascadia_sim.models.architecture import Blocks, SlidingWindow
from cascadia_sim.models.fields import ArchitectureError, Fields
from cascadia_sim.models.hybrid import Hybrid, read_hybrid
from cascadia_sim.models.recurrent import delta_net, mamba1, mamba2, short_conv
from cascadia_sim.models.unknown import refuse_unknown
from cascadia_sim.models.window import read_window

HIDDEN, LAYERS = 96, 12


def hybrid(family: str, layers: int = LAYERS, **said: Any) -> Hybrid | None:
    return read_hybrid(Fields({"model_type": family, **said}, "config.json"), layers, HIDDEN)


def delta(layers: int) -> object:
    return delta_net(layers, HIDDEN, 16, key_dim=128, value_heads=32, value_dim=128, conv=4)


def heads(layers: int, **said: int) -> object:
    usual = {"head_dim": 64, "state": 128, "groups": 8, "conv": 4}
    return mamba2(layers, HIDDEN, 128, **(usual | said))


@pytest.mark.parametrize(
    ("family", "said", "made"),
    [
        ("llama", {}, None),
        ("qwen3_next", {}, Hybrid(12, delta(9), gate=True)),
        ("qwen3_5", {"full_attention_interval": 6, "attn_output_gate": False}, Hybrid(12, delta(10))),
        ("qwen3_5_moe", {"full_attention_interval": 1}, Hybrid(12, gate=True)),
        ("qwen3_next", {"layer_types": ["linear_attention"] * 5 + ["full_attention"] * 7},
         Hybrid(12, delta(5), gate=True)),
        ("nemotron_h", {"hybrid_override_pattern": "MMEM*-M*MEM-"},
         Hybrid(12, heads(6), Blocks(attention=2, dense=2, mixture=2))),
        ("nemotron_h", {"hybrid_override_pattern": "*-" * 6}, Hybrid(12, None, Blocks(6, 6, 0))),
        ("granitemoehybrid", {}, Hybrid(12, heads(12, head_dim=1, state=256, groups=1))),
        ("granitemoehybrid", {"mamba_d_head": 32, "layer_types": ["mamba"] * 8 + ["attention"] * 4},
         Hybrid(12, heads(8, head_dim=32, state=256, groups=1))),
        ("granitemoehybrid", {"layers_block_type": ["attention"] * 12}, Hybrid(12)),
        ("jamba", {}, Hybrid(12, mamba1(11, HIDDEN, 2 * HIDDEN, 16, 4, 6))),
        ("jamba", {"attn_layer_period": 3, "attn_layer_offset": 0, "mamba_expand": 3, "mamba_dt_rank": 5},
         Hybrid(12, mamba1(8, HIDDEN, 3 * HIDDEN, 16, 4, 5))),
        ("jamba", {"attn_layer_period": 1, "attn_layer_offset": 0}, Hybrid(12)),
        ("lfm2", {"full_attn_idxs": [2, 5, 11]}, Hybrid(12, short_conv(9, HIDDEN, 3))),
        ("lfm2_moe", {"full_attn_idxs": [0], "conv_L_cache": 5}, Hybrid(12, short_conv(11, HIDDEN, 5))),
        ("lfm2", {}, Hybrid(12)),
        ("longcat_flash", {}, Hybrid(24, blocks=Blocks(24, 24, 12))),
    ],
)  # fmt: skip
def test_a_family_mixes_tokens_as_its_own_code_does(
    family: str, said: dict[str, Any], made: Hybrid | None
) -> None:
    assert hybrid(family, **said) == made


def test_an_inner_rank_is_rounded_up() -> None:
    found = read_hybrid(Fields({"model_type": "jamba"}, "config.json"), 8, 97)
    assert found == Hybrid(8, mamba1(7, 97, 194, 16, 4, 7))


@pytest.mark.parametrize(
    ("family", "said", "what"),
    [
        ("nemotron_h", {"hybrid_override_pattern": "M" * 12, "moe_latent_size": 8}, "latent space"),
        ("nemotron_h", {"hybrid_override_pattern": "M" * 11 + "X"}, "has 'X'"),
        ("nemotron_h", {"hybrid_override_pattern": "M" * 11}, "does not name each layer"),
        ("qwen3_next", {"layer_types": ["linear_attention"] * 11}, "layer_types does not name each layer"),
        ("qwen3_next", {"layer_types": "linear_attention"}, "does not name each layer"),
        ("granitemoehybrid", {"layers_block_type": ["mamba"] * 13}, "layers_block_type does not name each"),
        ("lfm2", {"layer_types": ["conv"] * 11 + ["mamba"]}, "layer type 'mamba' is not simulated"),
        ("lfm2", {"layer_types": ["conv"] * 11 + [3]}, "layer type 3 is not simulated"),
    ],
)
def test_layers_that_nobody_could_count_are_named(family: str, said: dict[str, Any], what: str) -> None:
    with pytest.raises(ArchitectureError, match=what):
        hybrid(family, **said)


WINDOW = {"sliding_window": 64}


@pytest.mark.parametrize(
    ("said", "windowed"),
    [
        ({}, 12),
        ({"use_sliding_window": False}, 0),
        ({"use_sliding_window": True}, 12),
        ({"use_sliding_window": True, "max_window_layers": 5}, 7),
        ({"use_sliding_window": True, "max_window_layers": 20}, 0),
        ({"sliding_window_pattern": "LLG"}, 8),
        ({"sliding_window_pattern": "LLLLG"}, 10),
        ({"sliding_window_pattern": ""}, 0),
        ({"sliding_window_pattern": 6}, 10),
        ({"_sliding_window_pattern": 5}, 10),
        ({"model_type": "llama4_text"}, 9),
        ({"model_type": "llama4"}, 9),
        ({"layer_types": ["sliding_attention", "full_attention", "chunked_attention"] * 4}, 8),
        ({"layer_types": ["full_attention"] * 12, "use_sliding_window": True}, 0),
    ],
)
def test_so_many_of_twelve_layers_look_through_a_window(said: dict[str, Any], windowed: int) -> None:
    found = read_window(Fields(WINDOW | said, "config.json"), LAYERS, 1000)
    assert found == (SlidingWindow(64, windowed) if windowed else None)


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({"sliding_window": 999}, 999),
        ({"sliding_window": 1000}, None),
        ({"sliding_window": 0}, None),
        ({"sliding_window": None}, None),
        ({"attention_chunk_size": 1}, 1),
    ],
)
def test_a_window_as_long_as_the_context_is_none(said: dict[str, Any], tokens: int | None) -> None:
    found = read_window(Fields(said, "config.json"), LAYERS, 1000)
    assert (found and found.tokens) == tokens


@pytest.mark.parametrize("types", [["full_attention"] * 11, "full_attention", ["full_attention"] * 11 + [1]])
def test_a_list_of_layers_that_are_not_known_is_refused(types: object) -> None:
    with pytest.raises(ArchitectureError, match=r"layer_types does not|is not simulated"):
        read_window(Fields(WINDOW | {"layer_types": types}, "config.json"), LAYERS, 1000)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"latent_size": 2}, True),
        ({"latent_size": 1}, False),
        ({"latent_size": 0}, False),
        ({"latent_size": 2.5}, False),
        ({"n_extra": 3}, True),
        ({"extra_n": 3}, False),
        ({"ffn_pattern": "ABC"}, True),
        ({"flavour": "ABC"}, False),
        ({"block_types": ["a"]}, True),
        ({"block_types": []}, False),
        ({"colours": ["a"]}, False),
        ({"head_dim": 64}, False),
        ({"rope_dim": 64}, False),
        ({"pad_token_id": 7}, False),
    ],
)
def test_sizes_of_a_family_that_is_not_known_are_refused(said: dict[str, Any], refused: bool) -> None:
    fields = Fields({"model_type": "new", **said}, "config.json")
    if refused:
        with pytest.raises(ArchitectureError, match="is not known"):
            refuse_unknown(fields)
    else:
        refuse_unknown(fields)
    refuse_unknown(Fields({"model_type": "llama", **said}, "config.json"))
    refuse_unknown(Fields(said, "config.json"))
