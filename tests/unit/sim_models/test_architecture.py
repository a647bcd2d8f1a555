"""Sizes follow from configs: parameters, bytes of weights, bytes of KV cache."""

import pytest

from cascadia_sim.architecture import Architecture
from cascadia_sim.architectures_catalogue import architecture
from cascadia_sim.quantization import UnknownQuantization

# Published totals, in billions (model cards and technical reports).
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6.74,
    "meta-llama/Llama-2-13b-hf": 13.02,
    "meta-llama/Llama-2-70b-chat-hf": 68.98,
    "meta-llama/Meta-Llama-3-8B": 8.03,
    "meta-llama/Llama-3.3-70B-Instruct": 70.55,
    "meta-llama/Llama-3.1-405B": 405.85,
    "meta-llama/Llama-3.2-1B": 1.24,
    "meta-llama/Llama-3.2-3B-Instruct": 3.21,
    "deepseek-ai/DeepSeek-V3": 671.0,
    "deepseek-ai/DeepSeek-V2": 236.0,
    "deepseek-ai/DeepSeek-V2-Lite": 15.7,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1.78,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": 7.62,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": 14.8,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": 32.8,
    "Qwen/Qwen1.5-72B-Chat": 72.3,
    "Qwen/Qwen1.5-MoE-A2.7B": 14.3,
    "Qwen/Qwen2.5-0.5B": 0.494,
    "Qwen/Qwen2.5-3B": 3.09,
    "Qwen/Qwen2.5-72B-Instruct": 72.7,
    "Qwen/Qwen3-8B": 8.19,
    "Qwen/Qwen3-32B": 32.8,
    "Qwen/Qwen3-30B-A3B": 30.5,
    "Qwen/Qwen3-235B-A22B": 235.1,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480.2,
    "google/gemma-2b": 2.51,
    "google/gemma-7b-it": 8.54,
    "google/gemma-2-2b": 2.61,
    "google/gemma-2-9b-it": 9.24,
    "google/gemma-2-27b": 27.2,
    "google/gemma-3-1b-it": 1.00,
    "microsoft/phi-2": 2.78,
    "microsoft/Phi-3-mini-4k-instruct": 3.82,
    "microsoft/Phi-3-small-8k-instruct": 7.39,
    "microsoft/Phi-3-medium-128k-instruct": 13.96,
    "microsoft/Phi-3.5-MoE-instruct": 41.9,
    "microsoft/phi-4": 14.7,
    "microsoft/Phi-4-mini-instruct": 3.84,
    "mistralai/Mistral-7B-v0.1": 7.24,
    "mistralai/Mistral-Nemo-Instruct-2407": 12.2,
    "mistralai/Mistral-Small-Instruct-2409": 22.2,
    "mistralai/Mistral-Small-24B-Instruct-2501": 23.6,
    "mistralai/Mistral-Large-Instruct-2407": 122.6,
    "mistralai/Mixtral-8x7B-v0.1": 46.7,
    "mistralai/Mixtral-8x22B-v0.1": 140.6,
    "openai/gpt-oss-20b": 20.91,
    "openai/gpt-oss-120b": 116.83,
    "HuggingFaceTB/SmolLM2-135M": 0.1345,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1.71,
}


@pytest.mark.parametrize(("model", "billions"), PUBLISHED.items())
def test_parameters_are_those_published(model: str, billions: float) -> None:
    assert architecture(model).parameters / 1e9 == pytest.approx(billions, rel=0.01)


# gpt-oss and Qwen3-235B count without the input embedding or round it away; the others count it.
@pytest.mark.parametrize(
    ("model", "billions", "with_embedding"),
    [
        ("openai/gpt-oss-20b", 3.61, False),
        ("openai/gpt-oss-120b", 5.13, False),
        ("mistralai/Mixtral-8x7B-v0.1", 12.9, True),
        ("mistralai/Mixtral-8x22B-v0.1", 39.0, True),
        ("Qwen/Qwen3-235B-A22B", 22.0, True),
        ("Qwen/Qwen3-30B-A3B", 3.3, True),
        ("microsoft/Phi-3.5-MoE-instruct", 6.6, True),
        ("deepseek-ai/DeepSeek-V2", 21.0, False),
    ],
)
def test_active_parameters_are_those_published(model: str, billions: float, with_embedding: bool) -> None:
    a = architecture(model)
    active = a.active_parameters + (a.embedding_parameters if with_embedding else 0)
    assert active / 1e9 == pytest.approx(billions, rel=0.017)


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
