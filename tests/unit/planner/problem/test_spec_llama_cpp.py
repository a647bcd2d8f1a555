"""A stage for llama.cpp: GGUF formats only, its own defaults, and where its file lies."""

from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.planner.problem.judge import build_judge, check_probe
from cascadia.planner.problem.models import build_stages, find_weights
from cascadia.planner.spec.file import check_spec
from cascadia.planner.spec.models import JudgeSpec, StageSpec
from tests.unit.planner.specs import changed

STAGE = {
    "name": "small",
    "model": "Qwen/Qwen2.5-Coder-0.5B-Instruct",
    "engine": "llama.cpp",
    "quantization": "q4_k_m",
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quantization": "awq-int4"}, "llama.cpp reads GGUF files; write quantization: one of f16, q8_0"),
        ({"quantization": None}, "llama.cpp reads GGUF files"),
        ({"engine": "vllm"}, "q4_k_m is a format of llama.cpp; write engine: llama.cpp"),
        ({"attention_dp": 2}, "attention_dp has no effect on llama.cpp; remove it"),
        ({"engine": "llamacpp"}, "did you mean 'llama.cpp'?"),
        ({"quantization": "q4_k"}, "did you mean 'q4_k_m'?"),
    ],
)
def test_what_it_cannot_do_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_spec(changed("stages.0", STAGE | changes), "cascade.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_left_out_is_as_the_engine_has_it() -> None:
    (stage,) = build_stages((StageSpec.model_validate(STAGE),), Path(), "cascade.yaml")
    config = stage.config
    assert (config.engine, config.max_num_seqs, config.max_num_batched_tokens) == ("llama.cpp", 4, 2048)
    assert config.max_model_len == stage.architecture.max_position, "its slots are as long as that"
    (wide,) = build_stages((StageSpec.model_validate(STAGE | {"max_num_seqs": 256}),), Path(), "cascade.yaml")
    assert wide.config.max_num_seqs == 256


def test_a_file_is_found_from_anywhere_and_an_id_stays_as_it_is(tmp_path: Path) -> None:
    assert find_weights("models/small.gguf", tmp_path) == str(tmp_path / "models" / "small.gguf")
    assert find_weights("./checkpoint", tmp_path) == str(tmp_path / "checkpoint")
    assert find_weights("owner/name-GGUF:Q4_K_M", tmp_path) == "owner/name-GGUF:Q4_K_M"
    assert find_weights(None, tmp_path) is None


def test_a_probe_reads_the_states_of_this_engine_alone() -> None:
    found = JudgeSpec.model_validate({"kind": "probe", "model": "probe.json"})
    judge = build_judge(found, Path("/specs"), "cascade.yaml").judge
    assert (judge.kind, judge.placement, judge.model) == ("probe", "router", "/specs/probe.json")
    assert 0 < judge.latency_p50_s < judge.latency_p95_s
    other = {"name": "large", "model": "Qwen/Qwen2.5-Coder-0.5B-Instruct"}
    ours, vllm = (StageSpec.model_validate(each) for each in (STAGE, other))
    check_probe(judge, build_stages((ours, vllm), Path(), "cascade.yaml"), "cascade.yaml")
    with pytest.raises(BadInput, match="stage large runs on vllm, whose states it cannot read"):
        check_probe(judge, build_stages((vllm, ours), Path(), "cascade.yaml"), "cascade.yaml")
