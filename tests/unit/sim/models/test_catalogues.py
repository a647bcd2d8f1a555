"""Models and GPUs are found under the names that people write, and near misses are told."""

import csv
import pickle

import pytest
import yaml

from cascadia_sim.hardware.catalogue import UnknownGpu, gpu, known_gpus
from cascadia_sim.models.catalogue import UnknownModel, architecture, expand, known_models
from tests.data import data_path

LLAMA_SIZES = {
    "2": ["7b", "13b", "70b"],
    "3": ["8B", "70B"],
    "3.1": ["8B", "70B", "405B"],
    "3.2": ["1B", "3B", "11B-Vision", "90B-Vision"],
    "3.3": ["70B"],
}


def llama_ids() -> list[str]:
    ids = [f"meta-llama/Llama-2-{s}{end}" for s in LLAMA_SIZES["2"] for end in ("", "-hf", "-chat-hf")]
    for version in ("3", "3.1", "3.2", "3.3"):
        for size in LLAMA_SIZES[version]:
            ids += [
                f"meta-llama/{m}Llama-{version}-{size}{i}" for m in ("", "Meta-") for i in ("", "-Instruct")
            ]
    return ids


@pytest.mark.parametrize("model", llama_ids())
def test_every_llama_is_known_with_and_without_meta_and_instruct(model: str) -> None:
    assert architecture(model).name == model


def test_every_listed_model_reads_and_is_listed_once() -> None:
    assert len({m.lower() for m in known_models()}) == len(known_models()) > 200
    for model in known_models():
        assert architecture(model).parameters > 1e8


@pytest.mark.parametrize(
    "model",
    [
        *[f"deepseek-ai/DeepSeek-R1-Distill-Qwen-{s}" for s in ("1.5B", "7B", "14B", "32B")],
        *[f"deepseek-ai/DeepSeek-R1-Distill-Llama-{s}" for s in ("8B", "70B")],
        *[f"deepseek-ai/DeepSeek-{v}" for v in ("V3", "V3-0324", "R1", "R1-0528")],
        *[
            f"Qwen/Qwen1.5-{s}{c}"
            for s in ("0.5B", "1.8B", "4B", "7B", "14B", "32B", "72B")
            for c in ("", "-Chat")
        ],
        *[f"Qwen/Qwen2.5-{s}" for s in ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")],
        *["Qwen/Qwen2.5-Coder-32B-Instruct", "Qwen/Qwen2.5-Math-7B-Instruct", "Qwen/QwQ-32B"],
        *[f"Qwen/Qwen3-{s}" for s in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")],
        *["Qwen/Qwen3-235B-A22B-Thinking-2507", "Qwen/Qwen3-4B-Instruct-2507"],
        *[f"google/gemma-{s}{i}" for s in ("2b", "7b", "2-2b", "2-9b", "2-27b") for i in ("", "-it")],
        *[f"google/gemma-3-{s}-it" for s in ("1b", "4b", "12b", "27b")],
        *["microsoft/Phi-3-mini-4k-instruct", "microsoft/Phi-3.5-mini-instruct", "microsoft/phi-4"],
        *[f"mistralai/Mistral-7B-Instruct-v0.{v}" for v in (1, 2, 3)],
        *[
            "mistralai/Mixtral-8x7B-Instruct-v0.1",
            "openai/gpt-oss-20b",
            "HuggingFaceTB/SmolLM2-360M-Instruct",
        ],
    ],
)
def test_the_families_of_common_cascades_are_known(model: str) -> None:
    assert model in known_models()


@pytest.mark.parametrize(
    ("asked", "base", "quantization"),
    [
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "meta-llama/Llama-3.1-405B-Instruct", "fp8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "meta-llama/Meta-Llama-3.1-70B-Instruct", "fp8"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B-Instruct", "fp8"),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B", "fp8"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B-Instruct", "awq-int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B-Instruct", "int8"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct", "gptq-int4"),
        (
            "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
            "meta-llama/Llama-3.1-8B-Instruct",
            "awq-int4",
        ),
        ("cognitivecomputations/DeepSeek-R1-AWQ", "deepseek-ai/DeepSeek-R1", "awq-int4"),
    ],
)
def test_a_suffix_sets_the_quantisation(asked: str, base: str, quantization: str) -> None:
    found = architecture(asked)
    assert found.quantization == quantization
    assert found.parameters == architecture(base).parameters
    assert found.weight_bytes() < architecture(base).weight_bytes("bf16")


def test_letter_case_and_a_missing_owner_are_forgiven_but_a_wrong_owner_is_not() -> None:
    assert architecture("META-LLAMA/llama-3.1-8b") == architecture("meta-llama/Llama-3.1-8B")
    assert architecture("gemma-2b-it").name == "google/gemma-2b-it"
    with pytest.raises(UnknownModel) as caught:
        architecture("meta-lama/Llama-3.1-8B")
    assert caught.value.nearest[0] == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    "name", ["", "/", "x", "meta-llama/", "gpt-5", "-fp8", "meta-llama/Llama-3.1-8B-FP8-FP8"]
)
def test_an_unknown_model_says_what_to_write_instead(name: str) -> None:
    with pytest.raises(UnknownModel, match=r"config\.json") as caught:
        architecture(name)
    assert pickle.loads(pickle.dumps(caught.value)).nearest == caught.value.nearest


def test_alternatives_expand_as_in_a_shell() -> None:
    assert expand("a{,-b}{1,2}") == ("a1", "a2", "a-b1", "a-b2")


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h100", "h100-sxm"),
        ("H100-SXM-80GB", "h100-sxm"),
        ("NVIDIA H100", "h100-sxm"),
        ("A100-80GB", "a100-sxm"),
        ("a100", "a100-sxm"),
        ("A100-SXM-40GB", "a100-40gb"),
        ("H200-SXM-141GB", "h200-sxm"),
        ("b200", "b200-sxm"),
        ("L40S-48GB", "l40s"),
        ("amd_mi300x", "mi300x"),
        ("RTX 4090", "rtx4090"),
        ("h200_sxm", "h200-sxm"),
    ],
)
def test_gpus_are_found_under_their_usual_names(alias: str, name: str) -> None:
    assert gpu(alias).name == name


def test_an_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(UnknownGpu) as caught:
        gpu("h100-smx")
    assert caught.value.nearest[0] == "h100-sxm"
    with pytest.raises(UnknownGpu, match="write one of a100-sxm, a100-40gb"):
        gpu("????")


def test_every_gpu_is_complete_and_plausible() -> None:
    for name in known_gpus():
        g = gpu(name)
        assert 16e9 < g.memory_bytes < 310e9
        assert 50e12 < g.bf16_flops < 3e15
        assert not g.fp8_flops or g.fp8_flops >= 1.9 * g.bf16_flops
        assert 0 < g.link_bytes_per_s < g.hbm_bytes_per_s
        assert 0.2 < g.usd_per_hour < 10
        assert g.source
        assert g.price_source
        for share in (
            "gemm_compute",
            "gemm_low_precision",
            "gemm_hbm",
            "attention_compute",
            "kv_hbm",
            "link",
        ):
            assert 0 < getattr(g.efficiency, share) <= 1


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a100_sxm", "a100-sxm"),
        ("h100_sxm", "h100-sxm"),
        ("h100_pcie", "h100-pcie"),
        ("h200_sxm", "h200-sxm"),
        ("b200_sxm", "b200-sxm"),
        ("l40s", "l40s"),
        ("l4", "l4"),
        ("a30", "a30"),
    ],
)
def test_peaks_and_links_agree_with_the_published_system_files(file: str, name: str) -> None:
    system = yaml.safe_load(data_path(f"specs/systems/{file}.yaml").read_text(encoding="utf-8"))
    g, spec, node = gpu(name), system["gpu"], system["node"]
    assert g.memory_bytes == spec["mem_capacity"]
    assert g.hbm_bytes_per_s == spec["mem_bw"]
    assert g.bf16_flops == spec["bfloat16_tc_flops"]
    assert g.fp8_flops == spec.get("fp8_tc_flops", 0)
    assert g.int8_flops == spec["int8_tc_flops"]
    assert g.fp4_flops == spec.get("fp4_tc_flops", 0)
    assert g.link_bytes_per_s == node["intra_node_bw"]
    assert g.inter_node_bytes_per_s == node["inter_node_bw"]


@pytest.mark.data
def test_prices_with_a_source_are_those_of_the_source() -> None:
    with data_path("specs/gpu_prices.csv").open(encoding="utf-8") as file:
        listed = {
            (row["gpu"], row["provider"]): float(row["usd_per_gpu_hour"])
            for row in reversed(list(csv.DictReader(file)))
        }
    for name in ("H100-SXM-80GB", "H200-SXM-141GB", "L40S-48GB", "B200-SXM-180GB"):
        assert gpu(name).usd_per_hour == pytest.approx(listed[name, "nebius"], abs=0.005)
    for name in ("A6000-48GB", "A100-SXM-40GB"):
        assert gpu(name).usd_per_hour == pytest.approx(listed[name, "lambda"], abs=0.005)
