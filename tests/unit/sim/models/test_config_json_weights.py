"""A config is held against the index of weights beside it, and takes its quantisation from where NVIDIA writes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.config_json import ArchitectureError, from_config, read_architecture
from cascadia_sim.models.quantization import FORMATS
from cascadia_sim.models.weights import expected_bytes
from tests.unit.sim.iteration.test_hybrid import GLM_5, LONGCAT

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def folder(at: Path, config: dict[str, Any], total_size: object = None) -> Path:
    (at / "config.json").write_text(json.dumps(config))
    if total_size is not None:
        index = {"metadata": {"total_size": total_size}, "weight_map": {}}
        (at / "model.safetensors.index.json").write_text(json.dumps(index))
    return at


@pytest.mark.parametrize(
    ("config", "total_size"),
    [
        (LLAMA, 16_060_522_496),  # as published with Llama-3.1-8B
        (LLAMA | {"torch_dtype": "float32"}, 32_121_044_992),
        (LONGCAT, 1_124_000_000_000),
        (LLAMA, "unknown"),
        (LLAMA, 0),
    ],
)
def test_an_index_that_agrees_or_says_nothing_is_no_fault(
    tmp_path: Path, config: Any, total_size: Any
) -> None:
    assert read_architecture(folder(tmp_path, config, total_size)).parameters > 8e9


@pytest.mark.parametrize(
    ("config", "total_size"),
    [
        (LLAMA | {"num_hidden_layers": 80}, 16_060_522_496),
        (LLAMA, 141_107_412_992),
        (LLAMA | {"torch_dtype": "float32"}, 16_060_522_496),
    ],
)
def test_an_index_of_another_size_is_refused(tmp_path: Path, config: Any, total_size: Any) -> None:
    with pytest.raises(ArchitectureError) as caught:
        read_architecture(folder(tmp_path, config, total_size))
    assert "is read as" in caught.value.what
    assert f"model.safetensors.index.json says {total_size / 1e9:,.4g} GB" in caught.value.what
    assert "\n" not in str(caught.value)


def test_the_fault_that_read_longcat_six_times_too_large_would_be_caught(tmp_path: Path) -> None:
    misread = LONGCAT | {"expert_ffn_hidden_size": LONGCAT["ffn_hidden_size"]}
    with pytest.raises(ArchitectureError, match=r"is read as 3,2\d\dB parameters"):
        read_architecture(folder(tmp_path, misread, 1_124_000_000_000))


def test_towers_for_pictures_may_take_more_than_the_language_model_explains(tmp_path: Path) -> None:
    vision = {"text_config": LLAMA, "vision_config": {"hidden_size": 1024}}
    assert read_architecture(folder(tmp_path, vision, 24_000_000_000)).layers == 32
    with pytest.raises(ArchitectureError):
        read_architecture(folder(tmp_path, vision, 100_000_000_000))


def quantised(config: dict[str, Any], declared: dict[str, Any]) -> Architecture:
    return from_config(config | {"quantization_config": declared}, "q")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn*"]}, "nvfp4-experts"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        (
            {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head"],
             "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 4, "group_size": 16}}}},
            "nvfp4",
        ),
        (
            {"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*"],
             "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 4, "group_size": 32}}}},
            "mxfp4",
        ),
    ],
)  # fmt: skip
def test_four_bit_floats_are_told_apart(declared: dict[str, Any], expected: str) -> None:
    assert quantised(GLM_5, declared).quantization == expected


@pytest.mark.parametrize("algorithm", ["MIXED_PRECISION", "W4A8_AWQ", ""])
def test_what_modelopt_mixes_is_refused(algorithm: str) -> None:
    with pytest.raises(ArchitectureError, match="unknown weight format"):
        quantised(LLAMA, {"quant_method": "modelopt", "quant_algo": algorithm})


def test_scales_are_weighed_with_the_weights() -> None:
    """Sixteen 4-bit numbers and an 8-bit scale: 72 bits."""
    assert FORMATS["nvfp4"].bytes_per_weight == 72 / 8 / 16
    a = architecture("nvidia/Llama-3.3-70B-Instruct-FP4")
    matrices = a.parameters - 2 * a.embedding_parameters
    assert a.weight_bytes() == pytest.approx(matrices * 9 / 16 + 2 * a.embedding_parameters * 2, rel=1e-3)


def test_modelopts_own_file_counts_where_the_config_says_nothing(tmp_path: Path) -> None:
    stated = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}}
    folder(tmp_path, LLAMA)
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(stated))
    assert read_architecture(tmp_path).quantization == "nvfp4"
    (tmp_path / "hf_quant_config.json").write_text("[")
    assert read_architecture(tmp_path).quantization is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("nvidia/Qwen3-30B-A3B-NVFP4", "nvfp4"),
        ("nvidia/DeepSeek-R1-0528-NVFP4", "nvfp4-experts"),
        ("nvidia/DeepSeek-R1-FP4", "nvfp4-experts"),
        ("nvidia/Kimi-K2-Thinking-NVFP4", "nvfp4-experts"),
        ("zai-org/GLM-5-FP8", "fp8"),
    ],
)
def test_copies_of_the_catalogue_are_known_by_their_suffix(model: str, expected: str) -> None:
    assert architecture(model).quantization == expected


@pytest.mark.parametrize(
    ("towers", "share", "taken"),
    [
        ({}, 0.851, True),
        ({}, 0.849, False),
        ({}, 1.079, True),
        ({}, 1.081, False),
        ({"vision_config": {"a": 1}}, 0.401, True),
        ({"audio_config": {"a": 1}}, 0.399, False),
        ({"thinker_config": {"a": 1}}, 1.081, False),
        ({"vision_config": {}}, 0.6, False),
    ],
)
def test_a_checkpoint_holds_a_little_more_or_less_than_its_config_says(
    tmp_path: Path, towers: dict[str, Any], share: float, taken: bool
) -> None:
    held = from_config(LLAMA, "l").weight_bytes()
    assert held == pytest.approx(16_060_522_496, rel=1e-4)
    made = folder(tmp_path, LLAMA | towers, round(held / share))
    if taken:
        assert read_architecture(made).layers == 32
    else:
        with pytest.raises(ArchitectureError, match="is read as"):
            read_architecture(made)


@pytest.mark.parametrize("said", [True, -5, None])
def test_an_index_that_says_no_size_is_no_check_and_the_next_one_is(tmp_path: Path, said: object) -> None:
    made = folder(tmp_path, LLAMA)
    (made / "a.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": said}}))
    (made / "b.safetensors.index.json").write_text(json.dumps({"metadata": ["none"]}))
    assert read_architecture(made).layers == 32
    (made / "c.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}}))
    with pytest.raises(ArchitectureError, match=r"c\.safetensors"):
        read_architecture(made)


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({"torch_dtype": "float32"}, 2.0),
        ({"torch_dtype": None, "dtype": "float64"}, 4.0),
        ({"text_config": LLAMA | {"torch_dtype": "float32"}, "torch_dtype": None}, 2.0),
        ({"torch_dtype": "float16"}, 1.0),
        ({"torch_dtype": "float32", "quantization_config": {"quant_method": "fp8"}}, None),
    ],
)
def test_what_is_not_quantised_is_as_wide_as_its_dtype(changes: dict[str, Any], times: float | None) -> None:
    config = LLAMA | changes
    found = from_config(config, "l")
    assert expected_bytes(found, config) == (times or 1.0) * found.weight_bytes()


@pytest.mark.parametrize(
    ("config", "stated", "read"),
    [
        ({}, {"quant_algo": "FP8"}, "fp8"),
        ({}, {"quant_algo": ""}, None),
        ({}, [], None),
        ({"quantization_config": {"quant_method": "awq"}}, {"quant_algo": "FP8"}, "awq-int4"),
    ],
)
def test_modelopts_own_file_is_second_to_the_config(
    tmp_path: Path, config: dict[str, Any], stated: object, read: str | None
) -> None:
    made = folder(tmp_path, LLAMA | config)
    (made / "hf_quant_config.json").write_text(json.dumps({"quantization": stated}))
    assert read_architecture(made).quantization == read


def packed(kind: str, bits: int, ignore: list[str], **more: Any) -> dict[str, Any]:
    weights = {"type": kind, "num_bits": bits, **more}
    groups = {"first": {"weights": None}, "second": {"weights": weights}}
    return {"quant_method": "compressed-tensors", "ignore": ignore, "config_groups": groups}


KEPT = ["re:.*self_attn.*"]


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        (packed("float", 8, KEPT), "fp8"),
        (packed("int", 8, KEPT), "int8"),
        (packed("int", 4, []), "gptq-int4"),
        (packed("int", 4, KEPT), "int4-experts"),
        (packed("float", 4, []), "nvfp4"),
        (packed("float", 4, KEPT), "nvfp4-experts"),
        (packed("float", 4, KEPT, group_size=32), "mxfp4"),
        (packed("float", 4, [], group_size=32), None),
        (packed("float", 4, KEPT, group_size=64), None),
        (packed("int", 2, []), None),
        ({"quant_method": "compressed-tensors"}, None),
        ({"quant_method": "AWQ", "w_bit": 4}, "awq-int4"),
        ({"quant_method": "awq", "bits": 8}, None),
        ({"quant_method": "gptq"}, "gptq-int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ", "exclude_modules": KEPT}, "nvfp4-experts"),
        ({"quant_method": "modelopt_fp4", "quant_algo": "nvfp4", "ignore": "self_attn"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "fp8"),
    ],
)
def test_a_weight_format_is_read_or_refused(declared: dict[str, Any], read: str | None) -> None:
    if read is None:
        with pytest.raises(ArchitectureError, match="unknown weight format"):
            quantised(LLAMA, declared)
    else:
        assert quantised(LLAMA, declared).quantization == read
