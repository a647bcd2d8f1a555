"""Sizes follow from configs: parameters, bytes of weights, bytes of KV cache."""

import pytest

from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.quantization import UnknownQuantization


def test_deepseek_v3s_37_billion_active_lie_between_both_ways_of_counting() -> None:
    a = architecture("deepseek-ai/DeepSeek-V3")
    assert a.active_parameters < 37e9 < a.active_parameters + a.embedding_parameters
    assert a.active_parameters == pytest.approx(37e9, rel=0.011)


@pytest.mark.parametrize(
    ("model", "kv_cache_dtype", "expected"),
    [
        ("meta-llama/Llama-3.1-8B", "auto", 32 * 2 * 8 * 128 * 2),
        ("meta-llama/Llama-3.1-70B", "auto", 327_680),
        ("meta-llama/Llama-3.1-70B", "fp8", 163_840),
        ("meta-llama/Llama-2-7b-hf", "auto", 524_288),
        ("google/gemma-7b", "auto", 28 * 2 * 16 * 256 * 2),
        # DeepSeek-V3 report, section 2.1: 512 + 64 numbers a layer, whatever the heads.
        ("deepseek-ai/DeepSeek-V3", "auto", 61 * 576 * 2),
    ],
)
def test_kv_bytes_per_token(model: str, kv_cache_dtype: str, expected: int) -> None:
    assert architecture(model).kv_bytes_per_token(kv_cache_dtype) == expected


# Sizes of the published checkpoints, in GB.
@pytest.mark.parametrize(
    ("model", "quantization", "gigabytes"),
    [
        ("meta-llama/Llama-3.1-8B", None, 16.06),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", None, 410.1),
        ("deepseek-ai/DeepSeek-R1", None, 673.0),
        ("openai/gpt-oss-120b", None, 65.3),
        ("openai/gpt-oss-20b", None, 13.8),
        ("meta-llama/Llama-3.1-70B-Instruct", "awq-int4", 39.8),
    ],
)
def test_weight_bytes_are_those_of_the_checkpoint(
    model: str, quantization: str | None, gigabytes: float
) -> None:
    assert architecture(model).weight_bytes(quantization) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_a_requested_quantisation_overrides_the_checkpoints_own() -> None:
    r1 = architecture("deepseek-ai/DeepSeek-R1")
    assert r1.weight_bytes("awq-int4") < 0.6 * r1.weight_bytes()
    assert r1.weight_bytes("fp8") == r1.weight_bytes()
    assert r1.weight_bytes("bf16") == 2 * r1.parameters


def test_only_the_experts_of_an_mxfp4_checkpoint_are_quantised() -> None:
    a = architecture("openai/gpt-oss-120b")
    routed = a.layers * 128 * a.expert_parameters
    assert a.weight_bytes() == round(routed * 0.53125 + (a.parameters - routed) * 2)


def test_an_unknown_format_is_refused_by_name() -> None:
    a = architecture("meta-llama/Llama-3.1-8B")
    with pytest.raises(UnknownQuantization, match="'int3'; write one of bf16, fp8"):
        a.weight_bytes("int3")
    with pytest.raises(UnknownQuantization, match="kv_cache_dtype: unknown format 'fp3'"):
        a.kv_bytes_per_token("fp3")


def test_a_sliding_window_keeps_its_share_of_a_long_context() -> None:
    gemma: Architecture = architecture("google/gemma-3-27b-it")
    assert gemma.attending_layers(1024) == 62
    assert gemma.attending_layers(4096) == 10 + 52 / 4
    assert architecture("meta-llama/Llama-3.1-8B").attending_layers(10**6) == 32
