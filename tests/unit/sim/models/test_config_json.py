"""Any decoder's config.json gives an architecture; anything else one clear line."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.models.architecture import Architecture, Experts, SlidingWindow
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.config_json import ArchitectureError, from_config, read_architecture
from tests.data import data_path

DENSE: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "intermediate_size": 512,
    "vocab_size": 1000,
}


def read(**changes: Any) -> Any:
    return from_config(DENSE | changes, "tiny")


def test_kv_heads_and_head_size_follow_from_the_heads_where_unsaid() -> None:
    a = read()
    assert (a.kv_heads, a.head_dim, a.v_head_dim, a.max_position) == (8, 32, 32, 2048)
    assert a.moe is a.mla is a.window is a.quantization is None


def test_older_names_of_the_same_fields_are_read() -> None:
    a = from_config({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100}, "g")
    assert (a.layers, a.hidden, a.heads, a.intermediate) == (2, 64, 4, 256)
    assert a.tied_embeddings
    assert not a.gated_mlp


def test_a_nested_text_config_counts() -> None:
    nested = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560}}
    nested["text_config"] |= {"intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    a = from_config(nested, "gemma")
    assert a.parameters == architecture("google/gemma-3-4b-it").parameters
    assert a.window == SlidingWindow(1024, 29)


def test_a_context_of_ten_million_tokens_is_read() -> None:
    """Llama 4 Scout's own config was refused: more than ten million, it said."""
    assert read(max_position_embeddings=10_485_760).max_position == 10_485_760


def test_layers_that_are_all_said_to_attend_do() -> None:
    """MiniMax-M2's config marks each so; one that does not attend is refused as before."""
    assert read(model_type="minimax_m2", attn_type_list=[1] * 4).recurrent is None
    with pytest.raises(ArchitectureError, match="attn_type_list marks layers without attention"):
        read(model_type="minimax_m2", attn_type_list=[1, 0, 1, 1])


def test_multi_query_means_one_kv_head() -> None:
    assert read(model_type="falcon", multi_query=True).kv_heads == 1


def test_mixtures_of_every_family() -> None:
    qwen = read(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, mlp_only_layers=[0])
    assert qwen.moe == Experts(8, 2, 64, 0, dense_layers=1)
    deepseek = read(
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        n_shared_experts=2,
        first_k_dense_replace=3,
        moe_layer_freq=1,
    )
    assert deepseek.moe == Experts(8, 2, 64, 128, dense_layers=3)
    mixtral = read(num_local_experts=8, num_experts_per_tok=2)
    assert mixtral.moe == Experts(8, 2, 512, 0, dense_layers=0)
    assert mixtral.intermediate == 0
    llama4 = read(
        model_type="llama4_text",
        num_local_experts=8,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
        intermediate_size_mlp=1024,
    )
    assert llama4.moe == Experts(8, 1, 512, 512, dense_layers=2)
    assert llama4.intermediate == 1024


def test_a_single_expert_is_a_dense_model() -> None:
    assert read(num_local_experts=1).moe is None


def test_windows_by_list_by_period_and_by_switch() -> None:
    types = ["sliding_attention", "full_attention"] * 2
    assert read(sliding_window=64, layer_types=types).window == SlidingWindow(64, 2)
    assert read(sliding_window=64, sliding_window_pattern=4).window == SlidingWindow(64, 3)
    assert read(sliding_window=64, sliding_window_pattern="LLLG").window == SlidingWindow(64, 3)
    assert read(sliding_window=64).window == SlidingWindow(64, 4)
    assert read(sliding_window=64, use_sliding_window=False).window is None
    assert read(sliding_window=64, use_sliding_window=True, max_window_layers=3).window == SlidingWindow(
        64, 1
    )
    assert read(sliding_window=2048).window is None


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8}}},
            },
            "fp8",
        ),
        ({}, None),
    ],
)
def test_the_checkpoints_own_format_is_read(declared: dict[str, Any], expected: str | None) -> None:
    assert read(quantization_config=declared).quantization == expected


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": -3}, "num_hidden_layers is -3"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_hidden_layers": 20_000}, "20000 layers"),
        ({"hidden_size": "4096"}, "hidden_size is '4096'"),
        ({"hidden_size": float("nan")}, "hidden_size is nan"),
        ({"hidden_size": 10**40}, "hidden_size is 1000"),
        ({"hidden_size": 250}, "hidden_size 250 is not a multiple of 8 heads"),
        ({"num_key_value_heads": 3}, "8 attention heads are not a multiple of 3 KV heads"),
        ({"num_local_experts": 4, "num_experts_per_tok": 5}, "5 experts per token of 4"),
        ({"num_local_experts": 4}, "num_experts_per_tok is missing"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim is missing"),
        ({"layer_types": ["full_attention"]}, "layer_types does not name each layer"),
        ({"layer_types": ["mamba"] * 4}, "layer type 'mamba' is not simulated"),
        ({"model_type": "mamba2"}, "a mamba2 model is not simulated"),
        ({"is_encoder_decoder": True, "model_type": "odd"}, "a odd model is not simulated"),
        ({"model_type": ["llama"]}, "model_type is ['llama']"),
        ({"hybrid_override_pattern": "M*M*"}, "hybrid_override_pattern marks layers without attention"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'"),
        ({"quantization_config": {"quant_method": "bitnet"}}, "unknown weight format"),
        ({"quantization_config": "fp8"}, "quantization_config is 'fp8'"),
        ({"text_config": 3}, "text_config is 3"),
    ],
)
def test_nonsense_is_named_and_put_right_in_one_line(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        from_config(DENSE | changes, "tiny", "tiny/config.json")
    assert caught.value.where.startswith("tiny/config.json")
    assert what in caught.value.what
    assert caught.value.instead
    assert "\n" not in str(caught.value)


def test_errors_cross_process_borders_whole() -> None:
    error = pickle.loads(pickle.dumps(ArchitectureError("a", "b", "c")))
    assert (error.where, error.what, error.instead) == ("a", "b", "c")


def test_a_file_or_its_folder_is_read_and_named_after_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(DENSE), encoding="utf-8")
    assert read_architecture(folder) == read_architecture(str(folder / "config.json"))
    assert read_architecture(folder).name == "tiny-model"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, '{"a": NaN}', "\x00", "9" * 5000])
def test_a_file_that_is_no_config_gives_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArchitectureError):
        read_architecture(path)


def test_a_missing_or_binary_file_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(ArchitectureError, match="cannot be read"):
        read_architecture(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArchitectureError, match="is no JSON"):
        read_architecture(tmp_path / "b.json")


KEYS = [
    *DENSE,
    *("num_key_value_heads", "head_dim", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size"),
    *(
        "first_k_dense_replace",
        "moe_layer_freq",
        "mlp_only_layers",
        "n_shared_experts",
        "decoder_sparse_step",
    ),
    *("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "layer_types"),
    *("sliding_window", "sliding_window_pattern", "use_sliding_window", "max_window_layers", "text_config"),
    *("quantization_config", "tie_word_embeddings", "max_position_embeddings", "multi_query"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.sampled_from(["llama", "gemma3", "qwen", "llama4", "LLLG", "full_attention", "awq", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=6,
)


def architecture_or_line(config: dict[str, Any]) -> Architecture | str:
    try:
        return from_config(config, "fuzzed")
    except ArchitectureError as error:
        return str(error)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_whatever_a_config_holds_the_answer_is_an_architecture_or_one_line(changes: dict[str, Any]) -> None:
    a = architecture_or_line(DENSE | changes)
    if isinstance(a, str):
        assert a.count("\n") == 0 < len(a)
        return
    assert a.parameters >= a.active_parameters > 0
    assert 0 < a.weight_bytes("awq-int4") <= a.weight_bytes("bf16")
    assert 0 < a.attending_layers() <= a.layers
    assert a.kv_bytes_per_token() >= 2 * a.layers


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "model"),
    [
        ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
        ("meta-llama--Meta-Llama-3.1-405B", "meta-llama/Llama-3.1-405B"),
        ("mistralai--Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
        ("deepseek-ai--DeepSeek-R1", "deepseek-ai/DeepSeek-R1"),
        ("deepseek-ai--DeepSeek-V3", "deepseek-ai/DeepSeek-V3"),
        ("openai--gpt-oss-20b", "openai/gpt-oss-20b"),
        ("openai--gpt-oss-120b", "openai/gpt-oss-120b"),
        ("Qwen--Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("Qwen--Qwen3-1.7B", "Qwen/Qwen3-1.7B"),
        ("Qwen--Qwen3-8B", "Qwen/Qwen3-8B"),
        ("Qwen--Qwen3-32B", "Qwen/Qwen3-32B"),
        ("Qwen--Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
        ("Qwen--Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B"),
    ],
)
def test_the_catalogue_agrees_with_the_published_config(file: str, model: str) -> None:
    config = json.loads(data_path(f"specs/models/{file}.json").read_text(encoding="utf-8"))
    assert from_config(config, architecture(model).name) == architecture(model)
